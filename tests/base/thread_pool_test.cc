// Goal: every thread runs every region exactly once, the caller sees what they wrote, ranges cover their
// count, and a region allocates nothing. The plain integers shared between caller and workers are what TSan
// looks at.
#include "engine/base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>

namespace {
std::atomic<int64_t> allocations{0};

void* CountedAllocation(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
}  // namespace

void* operator new(std::size_t size) { return CountedAllocation(size); }
void* operator new[](std::size_t size) { return CountedAllocation(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace spillway {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, EveryThreadRunsEveryRegionOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  std::vector<int> runs(GetParam(), 0);
  for (int region = 1; region <= 5000; ++region) {
    pool.Run([&](int thread) { ++runs[thread]; });
    for (const int n : runs) ASSERT_EQ(n, region);
  }
}

TEST_P(ThreadPoolTest, RegionsSeeWhatTheCallerAndTheRegionBeforeWrote) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> partial(GetParam(), 0);
  int64_t expected = 0;
  for (int64_t region = 0; region < 3000; ++region) {
    const int64_t added = region * 3 + expected;
    // Each thread reads its neighbour's result of the region before.
    pool.Run([&, added](int thread) { partial[thread] = added + thread; });
    std::vector<int64_t> copied(GetParam());
    pool.Run([&](int thread) { copied[thread] = partial[(thread + 1) % GetParam()]; });
    for (int t = 0; t < GetParam(); ++t) ASSERT_EQ(copied[t], added + (t + 1) % GetParam());
    expected = copied[0] % 1000;
  }
}

TEST_P(ThreadPoolTest, RangesAreContiguousAndCoverTheCount) {
  ThreadPool pool(GetParam());
  for (const int64_t count : {0, 1, 2, 3, 4, 5, 7, 63, 64, 1000}) {
    std::vector<int> covered(count, 0);
    std::vector<int> owner(count, -1);
    pool.ParallelFor(count, [&](int64_t begin, int64_t end, int thread) {
      ASSERT_LT(begin, end);
      for (int64_t i = begin; i < end; ++i) {
        ++covered[i];
        owner[i] = thread;
      }
    });
    EXPECT_TRUE(std::all_of(covered.begin(), covered.end(), [](int n) { return n == 1; }));
    EXPECT_TRUE(std::is_sorted(owner.begin(), owner.end()));
  }
}

TEST_P(ThreadPoolTest, TheCallerIsThreadZero) {
  ThreadPool pool(GetParam());
  std::vector<std::thread::id> ids(GetParam());
  pool.Run([&](int thread) { ids[thread] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

TEST_P(ThreadPoolTest, ParkedWorkersWakeUp) {
  ThreadPool pool(GetParam());
  std::vector<int> runs(GetParam(), 0);
  volatile uint64_t work = 0;
  for (int region = 0; region < 50; ++region) {
    // Serial work well beyond the workers' spinning, then a region whose caller finishes long before or
    // after.
    for (int i = 0; i < 300000; ++i) work = work + 1;
    pool.Run([&](int thread) {
      volatile uint64_t own = 0;
      if (thread == region % GetParam()) {
        for (int i = 0; i < 300000; ++i) own = own + 1;
      }
      ++runs[thread];
    });
  }
  for (const int n : runs) EXPECT_EQ(n, 50);
}

TEST_P(ThreadPoolTest, StartsAndStopsWithoutARegion) {
  for (int i = 0; i < 200; ++i) ThreadPool pool(GetParam());
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(GetParam());
    std::atomic<int> runs{0};
    pool.Run([&](int) { ++runs; });
    ASSERT_EQ(runs, GetParam());
  }
}

TEST_P(ThreadPoolTest, TakesConstAndStatefulBodies) {
  ThreadPool pool(GetParam());
  std::atomic<int> runs{0};
  const auto body = [&](int) { ++runs; };
  pool.Run(body);
  struct Counter {
    std::atomic<int>& runs;
    void operator()(int) { ++runs; }
  } counter{runs};
  pool.Run(counter);
  EXPECT_EQ(runs, 2 * GetParam());
}

TEST_P(ThreadPoolTest, ARegionAllocatesNothing) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> data(1000);
  pool.Run([](int) {});
  const int64_t before = allocations;
  for (int region = 0; region < 100; ++region) {
    pool.ParallelFor(1000, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) data[i] += i;
    });
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(std::accumulate(data.begin(), data.end(), int64_t{0}), 100 * 999 * 1000 / 2);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 4));

TEST(ThreadPool, SeveralPoolsWorkSideBySide) {
  std::vector<std::thread> owners;
  std::atomic<int> runs{0};
  for (int owner = 0; owner < 3; ++owner) {
    owners.emplace_back([&] {
      ThreadPool pool(2);
      for (int region = 0; region < 1000; ++region) pool.Run([&](int) { ++runs; });
    });
  }
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(runs, 3 * 2 * 1000);
}

}  // namespace
}  // namespace spillway
