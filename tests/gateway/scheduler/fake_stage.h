// A stage behind a StageLink whose "model" is a hash of the tokens so far, so that a single row computed from
// the wrong history, at the wrong position or with the wrong activations changes every token after it. It
// keeps sequences and pages as a worker does, and is told when to work: Step() handles one frame.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "engine/stage/stage.h"
#include "gateway/pipeline/stage_link.h"
#include "gateway/scheduler/core.h"

namespace spillway::gateway::testing {

inline constexpr uint32_t kVocabulary = 1000;
inline constexpr uint32_t kEmbedding = 2;  // two floats carry a row's 64-bit value

// What the pipeline of hashing stages generates for this prompt alone.
std::vector<int32_t> SoloTokens(std::vector<int32_t> prompt, uint64_t seed, uint32_t stages, uint32_t count,
                                std::span<const int32_t> stop_ids = {});

// Thread-safe (the scheduler sends while another thread steps).
class FakeStage final : public StageLink {
 public:
  FakeStage(uint32_t index, uint32_t stages, const StageOptions& options, StageEventSink* sink)
      : index_(index), stages_(stages), options_(options), sink_(sink) {}
  void set_sink(StageEventSink* sink) { sink_ = sink; }

  void Accept(uint64_t connection) override;
  void SendOpen(v1::Open open) override;
  void SendForward(v1::Forward forward) override;
  void SendFork(v1::Fork) override {}
  void SendClose(uint64_t sequence) override;
  void SendCancel(uint64_t sequence) override;
  void Reset(absl::Status why) override;

  void Connect();                      // posts kUp
  void Lose(const absl::Status& why);  // posts kDown; frames that waited are gone
  bool Step();                         // handles the oldest frame; false when there is none

  // A worker that came back empty, or forgets a sequence.
  void ForgetEverything();
  bool ForgetOne(std::mt19937_64& random);
  std::function<void(v1::ForwardReply&)> tamper;  // called on every reply
  // Its state cannot be rewound but to where one of the last few segments ended.
  void set_recurrent(bool recurrent) { recurrent_ = recurrent; }
  void Rewind(uint32_t tokens);  // every sequence, to that many tokens or the last state before

  StageEndpoint Endpoint(const std::string& name, bool gpu) { return {name, gpu, options_, this}; }
  uint32_t pages_held() const;
  uint32_t open_sequences() const;
  size_t queued_forwards() const;
  uint32_t refusals() const;
  uint32_t resets() const;
  std::vector<uint32_t> batch_rows() const;  // of every micro-batch so far

 private:
  struct Held {
    uint64_t seed = 0;
    std::vector<int32_t> tokens;
    std::set<uint32_t> states;  // positions
    void Truncate(uint32_t begin);
    uint32_t Latest(uint32_t position) const;  // state at or before it
  };
  using Frame = std::function<void()>;
  void Push(Frame frame);
  void Answer(const v1::Forward& forward, uint64_t connection);
  v1::SegmentCode Check(const v1::Segment& segment, v1::SegmentResult* result);
  void Compute(const v1::Segment& segment, int index, const char* input, v1::ForwardReply* reply);
  uint32_t PagesHeldLocked() const;

  const uint32_t index_;
  const uint32_t stages_;
  const StageOptions options_;
  StageEventSink* sink_;
  mutable std::mutex mutex_;
  bool recurrent_ = false;
  bool up_ = false;
  uint64_t connection_ = 0;
  uint64_t accepted_ = 0;
  std::deque<Frame> frames_;
  size_t queued_forwards_ = 0;
  std::map<uint64_t, Held> held_;
  uint32_t refusals_ = 0;
  uint32_t resets_ = 0;
  std::vector<uint32_t> batch_rows_;
};

}  // namespace spillway::gateway::testing
