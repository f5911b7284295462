// Threads sum disjoint parts of one buffer; the best pass counts, since others only disturb. The buffer is
// released before anything is planned, so it is not in the ledger.
#include "rpc/bandwidth_probe.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace spillway::rpc {

namespace {

using Clock = std::chrono::steady_clock;

// Eight independent sums, so that the loads and not the additions limit the loop.
uint64_t Sum(const uint64_t* words, size_t count) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  }
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

struct Part {
  uint64_t* words = nullptr;
  size_t count = 0;
  uint64_t sum = 0;
  size_t passes = 0;
  double best_seconds = 0;
};

void ReadPart(Part* part, Clock::time_point end, std::atomic<int>* waiting) {
  std::fill_n(part->words, part->count, uint64_t{1});
  waiting->fetch_sub(1);
  while (waiting->load() > 0 && Clock::now() < end) std::this_thread::yield();
  while (true) {
    const Clock::time_point begin = Clock::now();
    const uint64_t sum = Sum(part->words, part->count);
    const Clock::time_point now = Clock::now();
    part->sum += sum;
    // A pass that ran past the end may have run alone: it does not count.
    if (now > end) return;
    const double seconds = std::chrono::duration<double>(now - begin).count();
    if (part->passes++ == 0 || seconds < part->best_seconds) part->best_seconds = seconds;
  }
}

}  // namespace

double MeasureReadBandwidth(const BandwidthOptions& options) {
  const int threads = std::clamp(options.threads, 1, 256);
  const size_t words = options.bytes / sizeof(uint64_t) / threads;
  if (words == 0) return 0;
  std::unique_ptr<uint64_t[]> buffer(new (std::nothrow) uint64_t[words * threads]);
  if (buffer == nullptr) return 0;
  const Clock::time_point end = Clock::now() + options.limit;
  std::vector<Part> parts(threads);
  std::atomic<int> waiting{threads};
  std::vector<std::thread> readers;
  for (int i = 0; i < threads; ++i) {
    parts[i].words = buffer.get() + words * i;
    parts[i].count = words;
    readers.emplace_back(ReadPart, &parts[i], end, &waiting);
  }
  for (std::thread& reader : readers) reader.join();
  double slowest = 0;
  uint64_t sum = 0;
  for (const Part& part : parts) {
    if (part.passes == 0) return 0;
    slowest = std::max(slowest, part.best_seconds);
    sum += part.sum;
  }
  // The sum is used, so that the reads cannot be dropped.
  if (slowest <= 0 || sum == 0) return 0;
  return static_cast<double>(words) * threads * sizeof(uint64_t) / slowest;
}

}  // namespace spillway::rpc
