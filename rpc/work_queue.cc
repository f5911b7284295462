// A mutex-guarded deque and whose turn it is.
#include "rpc/work_queue.h"

#include <algorithm>
#include <utility>

namespace spillway::rpc {

void WorkQueue::Add(WorkItem item) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  size_.store(items_.size(), std::memory_order_release);
}

void WorkQueue::Push(WorkItem item) {
  Add(std::move(item));
  available_.notify_one();
}

void WorkQueue::Cancel(const ReplySink* sink, uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  for (WorkItem& item : items_) {
    const auto* forward = std::get_if<std::unique_ptr<v1::Forward>>(&item.work);
    if (item.sink.get() != sink || forward == nullptr) continue;
    for (int i = 0; i < (*forward)->segments_size(); ++i) {
      if ((*forward)->segments(i).sequence() != sequence) continue;
      const uint32_t index = static_cast<uint32_t>(i);
      const auto place = std::lower_bound(item.cancelled.begin(), item.cancelled.end(), index);
      if (place == item.cancelled.end() || *place != index) item.cancelled.insert(place, index);
    }
  }
}

WorkItem WorkQueue::PopLocked() {
  WorkItem item = std::move(items_.front());
  items_.pop_front();
  size_.store(items_.size(), std::memory_order_release);
  return item;
}

std::optional<WorkItem> WorkQueue::TryTurn() {
  const std::lock_guard lock(mutex_);
  if (turn_taken_ || items_.empty()) return std::nullopt;
  turn_taken_ = true;
  return PopLocked();
}

std::optional<WorkItem> WorkQueue::WaitForTurn() {
  std::unique_lock lock(mutex_);
  available_.wait(lock, [&] { return !turn_taken_ && (stopped_ || !items_.empty()); });
  if (items_.empty()) return std::nullopt;
  turn_taken_ = true;
  return PopLocked();
}

std::optional<WorkItem> WorkQueue::Next() {
  const std::lock_guard lock(mutex_);
  if (!items_.empty()) return PopLocked();
  turn_taken_ = false;
  if (stopped_) available_.notify_all();
  return std::nullopt;
}

void WorkQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  available_.notify_all();
}

}  // namespace spillway::rpc
