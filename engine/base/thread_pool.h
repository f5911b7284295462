// A fixed pool for data-parallel regions: the caller is thread 0, workers spin briefly after a region and
// then park. Starting a region allocates nothing. One region at a time (confined to the thread that owns the
// stage).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace spillway {

class ThreadPool {
 public:
  // threads >= 1, including the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(thread) once on each thread, thread in [0, threads()), and returns when all are done.
  template <typename Body>
  void Run(Body&& body) {
    if (threads_ == 1) {
      body(0);
      return;
    }
    using Callable = std::remove_reference_t<Body>;
    Start([](void* context, int thread) { (*static_cast<Callable*>(context))(thread); },
          const_cast<void*>(static_cast<const void*>(&body)));
  }

  // Splits [0, count) into one contiguous range per thread: body(begin, end, thread); empty ranges are not
  // called.
  template <typename Body>
  void ParallelFor(int64_t count, Body&& body) {
    Run([&](int thread) {
      const int64_t begin = count * thread / threads_;
      const int64_t end = count * (thread + 1) / threads_;
      if (begin < end) body(begin, end, thread);
    });
  }

 private:
  using Function = void (*)(void* context, int thread);
  void Start(Function function, void* context);
  void Work(int thread);

  const int threads_;
  Function function_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> epoch_{0};   // a new value starts a region
  std::atomic<int32_t> pending_{0};  // workers that have not finished the region
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace spillway
