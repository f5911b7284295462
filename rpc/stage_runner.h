// Runs a worker's Stage. It owns it: every call to it happens here, one at a time in the order frames
// arrived, on the thread that read the frame or on its own; replies are written from here. Knows neither
// epochs nor health (worker_service.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "engine/model/config.h"
#include "engine/stage/stage.h"
#include "rpc/work_queue.h"
#include "telemetry/worker_metrics.h"

namespace spillway::rpc {

// Thread-safe but for what says otherwise.
class StageRunner {
 public:
  // Consistent with each other: rows x layers is what layer_steps should be.
  struct Counters {
    bool loaded = false;
    StageUnits units;
    StageOptions options;
    PurposeBytes allocated;  // by the stage
    uint64_t rows = 0;       // of segments that succeeded, since the stage was installed
    uint64_t layer_steps = 0;
    uint32_t free_pages = 0;
    uint32_t open_sequences = 0;
    bool busy = false;
    std::chrono::steady_clock::time_point last_forward;
  };

  // `model` and `metrics` outlive the runner. `after_forward` is called after the reply, on the thread that
  // computed.
  StageRunner(const Model& model, std::string device, telemetry::WorkerMetrics& metrics,
              std::function<void()> after_forward);
  ~StageRunner();  // finishes what is queued

  // Computes what is queued on the calling thread, unless another thread has the turn: then that one does. A
  // frame is computed by the thread that read it: handing it to another costs a wake-up, 40 us and more on a
  // virtual machine, twice a token.
  void Work();

  WorkQueue& queue() { return queue_; }
  const WorkQueue& queue() const { return queue_; }
  // Queued: what was queued before runs first.
  void CloseAllSequences();
  void ResetCounters();
  // Replaces the stage (null: unloads) in its turn and waits for it.
  void Install(std::unique_ptr<Stage> stage);
  Counters counters() const;
  void RefuseNewSequences(bool refuse) { draining_.store(refuse); }

 private:
  struct Times {
    std::chrono::steady_clock::time_point received, started, computing, computed;
  };
  void Run();
  void FinishTurn(std::optional<WorkItem> item);
  void Handle(WorkItem& item);
  void HandleForward(WorkItem& item, v1::Forward& forward);
  void HandleOpen(ReplySink& sink, const v1::Open& open);
  void HandleFork(ReplySink& sink, const v1::Fork& fork);
  void HandleClose(const v1::Close& close);
  absl::Status Prepare(const v1::Forward& forward, const std::vector<uint32_t>& cancelled);
  absl::Status Compute(const v1::Forward& forward, const std::vector<uint32_t>& cancelled,
                       v1::ForwardReply* reply, Times* times);
  void FillReply(const v1::Forward& forward, const ForwardOutput& output, v1::ForwardReply* reply) const;
  void Count(const ForwardOutput& output, const Times& times);
  void PublishSequences();

  const Model& model_;
  const std::string device_;
  telemetry::WorkerMetrics& metrics_;
  const std::function<void()> after_forward_;
  std::atomic<bool> draining_{false};
  WorkQueue queue_;

  // Confined to who has the queue's turn.
  std::unique_ptr<Stage> stage_;
  std::unordered_set<SequenceId> open_;
  std::vector<Segment> segments_;       // handed to the stage: those not cancelled
  std::vector<uint32_t> indices_;       // of each, in Forward.segments
  std::vector<float> storage_;          // decoded or compacted activations
  std::span<const float> activations_;  // (rows of segments_, n_embd)
  uint64_t layer_weight_bytes_ = 0;     // read once a micro-batch
  uint64_t head_weight_bytes_ = 0;

  mutable std::mutex counters_mutex_;
  Counters counters_;
  // Tasks, and what readers leave. Last: starts when the rest is there.
  std::thread thread_;
};

}  // namespace spillway::rpc
