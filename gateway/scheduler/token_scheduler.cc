// See token_scheduler.h.
#include "gateway/scheduler/token_scheduler.h"

#include <utility>

#include "engine/base/status.h"

namespace spillway::gateway {

TokenScheduler::TokenScheduler(const SchedulerOptions& options, std::vector<StageEndpoint> stages,
                               telemetry::GatewayMetrics* metrics)
    : options_(options),
      limits_(LimitsOf(stages)),
      core_(options, std::move(stages), metrics),
      why_not_ready_(core_.WhyNotReady()) {
  // Who hears that a request ended with its stage must find the door closed.
  core_.set_on_lost([this] {
    const std::lock_guard lock(mutex_);
    why_not_ready_ = core_.WhyNotReady();
  });
  thread_ = std::thread([this] { Run(); });
}

TokenScheduler::~TokenScheduler() { Shutdown(std::chrono::milliseconds(0)); }

absl::StatusOr<RequestId> TokenScheduler::Submit(GenerationRequest request, EventSink sink) {
  SPILLWAY_RETURN_IF_ERROR(ValidateRequest(request, limits_, options_.n_vocab));
  const std::lock_guard lock(mutex_);
  if (draining_) return Unavailable("the gateway is shutting down");
  if (!why_not_ready_.empty()) return Unavailable("{}; retry", why_not_ready_);
  if (queued_ >= options_.max_queue) {
    return ResourceExhausted("{} requests are waiting, the queue holds {}: retry later", queued_,
                             options_.max_queue);
  }
  ++queued_;
  ++inbox_submits_;
  const RequestId id = next_request_++;
  inbox_.push_back(SubmitEvent{id, std::move(request), std::move(sink)});
  wake_.notify_one();
  return id;
}

void TokenScheduler::Cancel(RequestId id) { PostEvent(CancelEvent{id}); }

// The thread that read a reply sends the next hop: handing it to another costs a wake-up a hop.
void TokenScheduler::Post(StageEvent event) {
  std::unique_lock lock(mutex_);
  if (stopping_) return;
  inbox_.push_back(std::move(event));
  if (!turn_taken_) TakeTurns(lock);
}

void TokenScheduler::PostEvent(Event event) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  inbox_.push_back(std::move(event));
  if (!turn_taken_) wake_.notify_one();
}

bool TokenScheduler::Ready(std::string* why_not) const {
  const std::lock_guard lock(mutex_);
  const std::string why = draining_ ? "the gateway is shutting down" : why_not_ready_;
  if (why_not != nullptr) *why_not = why;
  return why.empty();
}

SchedulerStatus TokenScheduler::Status() const {
  const TimePoint now = std::chrono::steady_clock::now();
  SchedulerStatus status;
  {
    const std::lock_guard lock(mutex_);
    status = status_;
    status.waiting = queued_;
  }
  status.tokens_per_second = core_.hops().TokensPerSecond(now);
  for (uint32_t i = 0; i < core_.stages(); ++i)
    status.decode_hops.push_back(core_.hops().DecodeMeans(i, now));
  return status;
}

void TokenScheduler::Handle(Event event, TimePoint now) {
  if (auto* submit = std::get_if<SubmitEvent>(&event)) {
    core_.Submit(submit->id, std::move(submit->request), std::move(submit->sink), now);
  } else if (const auto* cancel = std::get_if<CancelEvent>(&event)) {
    core_.Cancel(cancel->id, now);
  } else if (auto* stage = std::get_if<StageEvent>(&event)) {
    core_.OnStage(std::move(*stage), now);
  } else {
    core_.CancelAll(Unavailable("the gateway is shutting down"), now);
  }
}

void TokenScheduler::PublishLocked() {
  queued_ = core_.waiting() + inbox_submits_;
  status_.running = core_.running();
  status_.prompt_tokens = core_.prompt_tokens();
  status_.generated_tokens = core_.generated_tokens();
  why_not_ready_ = core_.WhyNotReady();
  published_.notify_all();
}

// With the lock held on entry and exit, not while the core works. Takes the turn until the inbox is empty.
void TokenScheduler::TakeTurns(std::unique_lock<std::mutex>& lock) {
  turn_taken_ = true;
  do {
    events_.clear();
    events_.swap(inbox_);
    inbox_submits_ = 0;
    lock.unlock();

    const TimePoint now = std::chrono::steady_clock::now();
    for (Event& event : events_) Handle(std::move(event), now);
    core_.CheckDeadlines(now);
    core_.Turn(now);

    lock.lock();
    PublishLocked();
  } while (!inbox_.empty());
  turn_taken_ = false;
  deadline_ = core_.NextDeadline();
  if (stopping_ || deadline_ < sleeping_until_) wake_.notify_one();
}

void TokenScheduler::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto due = [this] {
      return !turn_taken_ && (!inbox_.empty() || stopping_ || deadline_ < sleeping_until_);
    };
    sleeping_until_ = deadline_;
    const bool woken = deadline_ == TimePoint::max() ? (wake_.wait(lock, due), true)
                                                     : wake_.wait_until(lock, deadline_, due);
    // Whoever has the turn looks at the deadlines, too.
    if (turn_taken_) continue;
    if (stopping_ && inbox_.empty()) return;
    if (!woken || !inbox_.empty()) TakeTurns(lock);
  }
}

void TokenScheduler::Shutdown(std::chrono::milliseconds grace) {
  {
    std::unique_lock lock(mutex_);
    draining_ = true;
    const auto idle = [this] { return inbox_.empty() && queued_ == 0 && status_.running == 0; };
    if (!stopping_ && !published_.wait_for(lock, grace, idle)) inbox_.push_back(CancelAllEvent{});
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace spillway::gateway
