// What waits to be computed: decoded frames of the gateway's stream and tasks of the service, in order. Any
// number of producers; one consumer at a time, whichever thread that is. Bounds are the stream's business
// (forward_stream.h).
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "rpc/fragments.h"
#include "spillway/v1/worker.pb.h"

namespace spillway::rpc {

struct WorkItem;

// Where the answers of one stream go. Thread-safe.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual bool alive() const = 0;  // false once the stream ended: its work is dropped
  virtual void Send(std::vector<v1::WorkerFrame> frames) = 0;
  virtual void Release(const WorkItem& item) = 0;  // it left the queue and is done
};

struct WorkItem {
  using Work = std::variant<std::unique_ptr<v1::Forward>, ForwardJoiner::Refusal, v1::Open, v1::Fork,
                            v1::Close, std::function<void()>>;
  // A micro-batch or its refusal: what the gateway waits for.
  static bool IsStep(const Work& work) {
    return std::holds_alternative<std::unique_ptr<v1::Forward>>(work) ||
           std::holds_alternative<ForwardJoiner::Refusal>(work);
  }
  std::shared_ptr<ReplySink> sink;  // the stream and the queue own it together; null for a task
  Work work;
  uint64_t bytes = 0;
  std::chrono::steady_clock::time_point received;
  std::vector<uint32_t> cancelled;  // segments of a Forward that were cancelled while it waited
};

// Thread-safe. A consumer takes the turn with its first item and keeps it until Next finds nothing more.
class WorkQueue {
 public:
  // Wakes who waits for a turn.
  void Push(WorkItem item);
  // Wakes nobody: the caller asks for a turn next.
  void Add(WorkItem item);
  // Marks the waiting segments of `sequence` that came over `sink`.
  void Cancel(const ReplySink* sink, uint64_t sequence);
  // Takes the turn. nullopt when another consumer has it, who will come to what waits, or nothing waits.
  std::optional<WorkItem> TryTurn();
  // Waits for something to do and takes the turn. nullopt after Stop, when all items are gone.
  std::optional<WorkItem> WaitForTurn();
  // The next item of the turn; nullopt ends it.
  std::optional<WorkItem> Next();
  void Stop();
  size_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  WorkItem PopLocked();

  std::mutex mutex_;
  std::condition_variable available_;
  bool turn_taken_ = false;
  std::deque<WorkItem> items_;
  bool stopped_ = false;
  std::atomic<size_t> size_{0};
};

}  // namespace spillway::rpc
