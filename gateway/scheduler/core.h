// The scheduler's rules without its thread: who is admitted, which rows go into the next micro-batch, what an
// answer or a lost stage means. Driven by events and an explicit clock, so that tests can play any order of
// them. It sees stages only through StageLink, and text not at all.
#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/pipeline/stage_link.h"
#include "gateway/scheduler/hop_recorder.h"
#include "gateway/scheduler/prefill_pacer.h"
#include "gateway/scheduler/sequence.h"
#include "telemetry/gateway_metrics.h"

namespace spillway::gateway {

struct StageEndpoint {
  std::string name;  // "cpu-worker-0", for messages
  bool gpu = false;
  StageOptions options;
  StageLink* link = nullptr;  // outlives the scheduler
};

struct SchedulerOptions {
  uint32_t n_vocab = 0;
  uint32_t n_embd = 0;
  uint32_t max_queue = 64;  // requests accepted and not yet running
  v1::ActivationType activation_type = v1::ACTIVATION_TYPE_F32;
  std::chrono::milliseconds hop_timeout{30'000};
  double prefill_target_seconds = 0.050;  // prompt rows' compute in one micro-batch on the slowest stage
  uint32_t max_prefill_rows = ~0u;        // a further bound on a chunk
};

// What all stages together allow: the smallest of each.
struct PipelineLimits {
  uint32_t context = 0;  // tokens of one sequence
  uint32_t pages = 0;
  uint32_t sequences = 0;
  uint32_t rows = 0;
};
PipelineLimits LimitsOf(const std::vector<StageEndpoint>& stages);

// InvalidArgument for a request that no state of the cluster could serve.
absl::Status ValidateRequest(const GenerationRequest& request, const PipelineLimits& limits,
                             uint32_t n_vocab);

// Thread-compatible: one turn at a time (token_scheduler.h). The order of calls per wake-up: events,
// CheckDeadlines, Turn.
class SchedulerCore {
 public:
  // `metrics` may be null; it outlives the core.
  SchedulerCore(const SchedulerOptions& options, std::vector<StageEndpoint> stages,
                telemetry::GatewayMetrics* metrics);

  // Called when a stage is lost, before the requests that end with it are told.
  void set_on_lost(std::function<void()> on_lost) { on_lost_ = std::move(on_lost); }

  // A validated request. Ends at once with Unavailable when a stage is down.
  void Submit(RequestId id, GenerationRequest request, EventSink sink, TimePoint now);
  void Cancel(RequestId id, TimePoint now);
  void CancelAll(const absl::Status& why, TimePoint now);
  void OnStage(StageEvent event, TimePoint now);
  void CheckDeadlines(TimePoint now);
  // Makes room, admits, forms micro-batches and sends them.
  void Turn(TimePoint now);
  // When CheckDeadlines has something to do at the earliest.
  TimePoint NextDeadline() const;

  uint32_t running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t in_flight() const { return static_cast<uint32_t>(flying_.size()); }
  uint32_t pages_held() const { return pages_held_; }
  uint64_t prompt_tokens() const { return prompt_tokens_; }
  uint64_t generated_tokens() const { return generated_tokens_; }
  uint64_t preemptions() const { return preemptions_; }
  uint32_t stages() const { return static_cast<uint32_t>(stages_.size()); }
  std::string WhyNotReady() const;  // "" when every stage is up
  const HopRecorder& hops() const { return hops_; }

 private:
  struct StageState {
    StageEndpoint endpoint;
    bool up = false;
    uint64_t connection = 0;
    std::string why = "connecting";
    std::deque<uint64_t> steps;  // in flight on it, oldest first
    // Closes whose arrival no later answer has proved yet, with the number of micro-batches sent before each.
    // When the connection breaks they are sent again on the next one, so that no sequence stays open over
    // there.
    std::deque<std::pair<uint64_t, SequenceId>> unproved_closes;
    uint64_t forwards_sent = 0;
    uint64_t forwards_answered = 0;
  };
  using Batch = std::unique_ptr<FlyingBatch>;

  // core_requests.cc: the life of a request.
  uint32_t PagesWanted(const Sequence& sequence) const;
  bool CanAdmit(const Sequence& sequence) const;
  void Admit(TimePoint now);
  void Begin(Sequence& sequence);
  void CloseEverywhere(Sequence& sequence);
  void Preempt(Sequence& sequence);
  // Runs the sequence's tokens through all stages again. Ends it when that did not help before.
  void Restart(Sequence& sequence, const std::string& why, TimePoint now);
  // Only its tokens from `from` on, the last position that the stage can go on from.
  void Replay(Sequence& sequence, uint32_t from, const std::string& why, TimePoint now);
  void AddToken(Sequence& sequence, const v1::SampledRow& row, TimePoint now);
  // The next mask of a constrained sequence; false after ending one whose mask cannot be had.
  bool ComputeMask(Sequence& sequence, TimePoint now);
  void Finish(Sequence& sequence, FinishReason reason, absl::Status error, TimePoint now);
  Sequence* FindOpen(SequenceId id);
  Sequence* FindRun(const BatchItem& item);

  // core_batches.cc: forming and sending micro-batches.
  void ReserveGrowth();
  bool SendNextBatch(TimePoint now);
  void AddDecodeRows(FlyingBatch& batch, uint32_t* rows_left);
  void AddPrefillRows(FlyingBatch& batch, uint32_t rows_left);
  void AddItem(FlyingBatch& batch, Sequence& sequence, uint32_t count);
  void OpenOn(uint32_t stage, Sequence& sequence);
  void SendToStage(Batch batch, std::string activations, v1::ActivationType type, TimePoint now);

  // core_replies.cc: what comes back.
  void OnReply(uint32_t stage, rpc::HopReply reply, TimePoint now);
  absl::Status CheckReply(const FlyingBatch& batch, const v1::ForwardReply& reply, bool head) const;
  void FailBatch(const FlyingBatch& batch, const absl::Status& why, TimePoint now);
  void HandleSegmentError(const BatchItem& item, const v1::SegmentResult& result, const std::string& stage,
                          TimePoint now);
  void ForwardSurvivors(Batch batch, v1::ForwardReply reply, TimePoint now);
  void DrawTokens(const FlyingBatch& batch, const v1::ForwardReply& reply, TimePoint now);
  void LandItem(const BatchItem& item);
  void OnSequenceError(uint32_t stage, const v1::SequenceError& error, TimePoint now);
  void OnUp(uint32_t stage, uint64_t connection, TimePoint now);
  void OnDown(uint32_t stage, const absl::Status& why, TimePoint now);
  void LoseStage(uint32_t stage, const absl::Status& why, TimePoint now);

  // Masks of one micro-batch stay well within a message.
  size_t max_masked_rows() const {
    constexpr uint64_t kMaxBytes = uint64_t{1} << 19;
    return std::max<uint64_t>(1, kMaxBytes / (MaskBytes(options_.n_vocab) + 1));
  }

  const SchedulerOptions options_;
  const PipelineLimits limits_;
  telemetry::GatewayMetrics* const metrics_;
  std::function<void()> on_lost_ = [] {};
  std::vector<StageState> stages_;
  HopRecorder hops_;
  PrefillPacer pacer_;

  std::unordered_map<RequestId, std::unique_ptr<Sequence>> requests_;
  std::map<RequestId, Sequence*> running_;  // oldest first
  std::deque<Sequence*> waiting_;           // preempted ones in front
  std::unordered_map<SequenceId, Sequence*> open_;
  std::map<uint64_t, Batch> flying_;  // by step
  SequenceId next_sequence_ = 1;
  uint64_t next_step_ = 1;
  uint32_t pages_held_ = 0;
  uint64_t prompt_tokens_ = 0;  // of finished requests
  uint64_t generated_tokens_ = 0;
  uint64_t preemptions_ = 0;
};

}  // namespace spillway::gateway
