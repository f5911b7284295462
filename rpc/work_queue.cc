// A mutex-guarded deque with a short spin before the wait.
#include "rpc/work_queue.h"

#include <algorithm>
#include <utility>

namespace spillway::rpc {

namespace {

constexpr std::chrono::microseconds kSpin{20};

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void WorkQueue::Push(WorkItem item) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    size_.store(items_.size(), std::memory_order_release);
  }
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

std::optional<WorkItem> WorkQueue::Pop() {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (size() == 0 && std::chrono::steady_clock::now() < end) Relax();
  std::unique_lock lock(mutex_);
  available_.wait(lock, [&] { return stopped_ || !items_.empty(); });
  if (items_.empty()) return std::nullopt;
  std::optional<WorkItem> item(std::move(items_.front()));
  items_.pop_front();
  size_.store(items_.size(), std::memory_order_release);
  return item;
}

void WorkQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  available_.notify_all();
}

}  // namespace spillway::rpc
