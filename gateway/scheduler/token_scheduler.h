// The scheduler's front: accepts requests and stage events from any thread, bounds the queue, and lets
// SchedulerCore decide, one turn at a time: on the thread that brings a reply, for all else on its own. Also
// drains it at the end.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "gateway/scheduler/core.h"
#include "gateway/scheduler/scheduler.h"

namespace spillway::gateway {

struct SchedulerStatus {
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t prompt_tokens = 0;  // of finished requests
  uint64_t generated_tokens = 0;
  double tokens_per_second = 0;       // last minute
  std::vector<HopMeans> decode_hops;  // per stage, last minute
};

// Thread-safe. Records a request's tokens and phases in `metrics`; outcomes, rejections and the times a
// client sees are the API layers'.
class TokenScheduler final : public GenerationBackend, public StageEventSink {
 public:
  // Links and metrics (may be null) outlive it; no event may be posted once it is destroyed.
  TokenScheduler(const SchedulerOptions& options, std::vector<StageEndpoint> stages,
                 telemetry::GatewayMetrics* metrics);
  ~TokenScheduler() override;  // Shutdown with no grace

  absl::StatusOr<RequestId> Submit(GenerationRequest request, EventSink sink) override;
  void Cancel(RequestId id) override;
  bool Ready(std::string* why_not) const override;
  void Post(StageEvent event) override;

  SchedulerStatus Status() const;

  // Refuses new requests, lets the accepted ones end for up to `grace`, ends the rest with Unavailable, joins
  // the thread. Idempotent.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct SubmitEvent {
    RequestId id = 0;
    GenerationRequest request;
    EventSink sink;
  };
  struct CancelEvent {
    RequestId id = 0;
  };
  struct CancelAllEvent {};
  using Event = std::variant<SubmitEvent, CancelEvent, CancelAllEvent, StageEvent>;

  void Run();
  void TakeTurns(std::unique_lock<std::mutex>& lock);
  void Handle(Event event, TimePoint now);
  void PostEvent(Event event);
  void PublishLocked();

  const SchedulerOptions options_;
  const PipelineLimits limits_;
  SchedulerCore core_;         // confined to who has the turn; hops() is thread-safe
  std::vector<Event> events_;  // of the turn

  mutable std::mutex mutex_;
  std::condition_variable wake_;       // inbox_ or stopping_ changed
  std::condition_variable published_;  // the published values below changed
  std::vector<Event> inbox_;
  uint32_t inbox_submits_ = 0;
  RequestId next_request_ = 1;
  bool turn_taken_ = false;
  TimePoint deadline_ = TimePoint::max();  // of the core, after the last turn
  TimePoint sleeping_until_ = TimePoint::max();
  bool draining_ = false;
  bool stopping_ = false;
  // What the last turn left, plus what was accepted since.
  std::string why_not_ready_ = "starting";
  uint32_t queued_ = 0;
  SchedulerStatus status_;

  std::thread thread_;
};

}  // namespace spillway::gateway
