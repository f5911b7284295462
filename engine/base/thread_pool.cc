#include "engine/base/thread_pool.h"

#include "engine/base/status.h"

namespace spillway {
namespace {

// Long enough to bridge the serial code between two regions of a token, short enough to leave a shared core
// alone.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  SPILLWAY_CHECK(threads >= 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::Start(Function function, void* context) {
  function_ = function;
  context_ = context;
  pending_.store(threads_ - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  function(context, 0);
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      Pause();
    } else if (const int32_t pending = pending_.load(std::memory_order_acquire); pending != 0) {
      pending_.wait(pending, std::memory_order_acquire);
    }
  }
}

void ThreadPool::Work(int thread) {
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; epoch_.load(std::memory_order_acquire) == seen; ++spin) {
      if (spin < kSpins) {
        Pause();
      } else {
        epoch_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (stop_.load()) return;
    function_(context_, thread);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace spillway
