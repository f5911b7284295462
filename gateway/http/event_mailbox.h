// Carries generation events from the scheduler thread to an exchange's executor: one short critical section
// and, when the box was empty, one post. Holds at most one request's tokens, because nothing reading it waits
// for a client.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gateway/http/exchange.h"
#include "gateway/scheduler/scheduler.h"

namespace spillway::gateway {

struct TimedEvent {
  GenerationEvent event;
  std::chrono::steady_clock::time_point at;
};

// Thread-safe. Shared by the sink that the backend holds and the call that reads; the executor is not touched
// after Close, so the backend may keep its sink longer than the server lives.
class EventMailbox : public std::enable_shared_from_this<EventMailbox> {
 public:
  using Reader = std::function<void(std::vector<TimedEvent>)>;

  // `reader` runs where `post` brings it while `owner` is alive and Close was not called there.
  EventMailbox(Poster post, std::weak_ptr<void> owner, Reader reader)
      : post_(std::move(post)), owner_(std::move(owner)), reader_(std::move(reader)) {}

  void Push(const GenerationEvent& event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    events_.push_back({event, std::chrono::steady_clock::now()});
    if (events_.size() > 1) return;  // a drain is on its way
    post_([self = shared_from_this()] { self->Drain(); });
  }

  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    events_.clear();
    post_ = nullptr;
  }

 private:
  void Drain() {
    const std::shared_ptr<void> owner = owner_.lock();
    std::vector<TimedEvent> events;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closed_ || owner == nullptr) return;
      events.swap(events_);
    }
    reader_(std::move(events));
  }

  std::mutex mutex_;
  bool closed_ = false;
  std::vector<TimedEvent> events_;
  Poster post_;
  const std::weak_ptr<void> owner_;
  const Reader reader_;
};

}  // namespace spillway::gateway
