// Goal: drawing a token allocates nothing, whatever the parameters. Counts every call of operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/sampling/drawer.h"

namespace {
std::atomic<int> allocations{0};

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

TEST(SamplerAllocation, DrawingAllocatesNothing) {
  std::vector<float> logits(50000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7919 % 1000) * 0.01f;
  std::vector<int32_t> history(300);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int32_t>(i % 77);
  Drawer drawer(logits, history, 100);
  const SamplingParams cases[] = {
      {.temperature = 0.0f},
      {.temperature = 1.0f},
      {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f},
      {.temperature = 0.7f,
       .top_k = 40000,
       .top_p = 0.99f,
       .repetition_penalty = 1.1f,
       .presence_penalty = 0.5f,
       .frequency_penalty = 0.5f,
       .n_logprobs = 20,
       .logprobs = true,
       .logit_bias = {{3, 1.0f}},
       .stop_ids = {5},
       .min_tokens = 1000},
  };
  std::vector<TokenLogprob> top(kMaxTopLogprobs);
  for (const SamplingParams& params : cases) {
    const int before = allocations;
    for (uint64_t position = 0; position < 3; ++position) drawer.DrawWithLogprobs(params, position, top);
    EXPECT_EQ(allocations - before, 0);
  }
}

TEST(SamplerAllocation, TheCounterCounts) {
  const int before = allocations;
  const auto owned = std::make_unique<std::vector<int>>(10);
  EXPECT_EQ(allocations - before, 2) << owned->size();
}

}  // namespace
}  // namespace spillway
