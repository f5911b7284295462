// Law 3 on the host backend: the planned bytes are the ledger's to the byte, one byte less is refused and
// leaves nothing behind, and Forward allocates nothing (operator new, malloc and aligned_alloc are counted).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/stage/checkpoints.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace {
std::atomic<uint64_t> g_allocations{0};
thread_local bool g_count = false;
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SPILLWAY_COUNTS_ALLOCATIONS 1
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t n) {
  if (g_count) ++g_allocations;
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t size) {
  if (g_count) ++g_allocations;
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t n) {
  if (g_count) ++g_allocations;
  return __libc_realloc(p, n);
}
void* aligned_alloc(size_t alignment, size_t n) {
  if (g_count) ++g_allocations;
  return __libc_memalign(alignment, n);
}
}
#endif

namespace spillway::cpu {
namespace {

std::unique_ptr<Model> Tiny(const test::TempDir& dir, const std::string& architecture, bool tied = true) {
  test::TinyModel tiny;
  tiny.architecture = architecture;
  tiny.n_layer = 3;
  tiny.weight_type = TensorType::kQ8_0;
  tiny.tied = tied;
  const auto path = test::WriteTinyModel(tiny, dir.File("tiny.gguf"));
  EXPECT_TRUE(path.ok()) << path.status();
  auto model = LoadModel(*path);
  EXPECT_TRUE(model.ok()) << model.status();
  return std::make_unique<Model>(std::move(*model));
}

class HostMemory : public testing::TestWithParam<const char*> {};

TEST_P(HostMemory, PlanEqualsLedgerToTheByteForEveryStage) {
  const test::TempDir dir;
  const auto model = Tiny(dir, GetParam());
  for (uint32_t begin = 0; begin <= 3; ++begin) {
    for (uint32_t end = begin; end <= 3; ++end) {
      for (uint32_t threads : {1u, 3u}) {
        const StageUnits units{begin, end, begin == 0, end == 3};
        const StageOptions options{
            .n_ctx = 100, .kv_pages = 7, .max_sequences = 3, .max_rows = 33, .threads = threads};
        const auto planned = HostStageBytes(*model, units, options);
        ASSERT_TRUE(planned.ok()) << planned.status();
        Ledger ledger(planned->Total());
        auto stage = CreateHostStage(*model, units, options, ledger);
        ASSERT_TRUE(stage.ok()) << stage.status();
        EXPECT_EQ(ledger.Allocated(), *planned);
        EXPECT_EQ((*stage)->Allocated(), *planned);
        // Layers 0 and 2 of a hybrid: three rows of q, k, v of the convolution and six S, in float32.
        const uint64_t state = (3 * (2 * 2 * 16 + 6 * 16) + 6 * 16 * 16) * sizeof(float);
        uint64_t recurrent = 0;
        for (uint32_t i = begin; i < end; ++i) recurrent += model->config.layers[i].Recurrent() ? 1 : 0;
        EXPECT_EQ((*planned)[Purpose::kRecurrentState], recurrent * 3 * kStateSlots * state);
        if (std::string(GetParam()) == "llama") {
          EXPECT_EQ(recurrent, 0u);
        }
        stage->reset();
        EXPECT_EQ(ledger.Allocated().Total(), 0u);

        Ledger tight(planned->Total() - 1);
        const auto refused = CreateHostStage(*model, units, options, tight);
        EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_EQ(tight.Allocated().Total(), 0u);
      }
    }
  }
}

TEST_P(HostMemory, ForwardAllocatesNothing) {
#ifndef SPILLWAY_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer owns malloc in this build";
#endif
  const test::TempDir dir;
  const auto model = Tiny(dir, GetParam());
  Ledger ledger;
  const StageOptions options{.n_ctx = 200, .kv_pages = 16, .max_sequences = 3, .max_rows = 64, .threads = 2};
  auto stage = CreateHostStage(*model, {0, 3, true, true}, options, ledger);
  ASSERT_TRUE(stage.ok()) << stage.status();
  SequenceOptions sequence;
  sequence.sampling.n_logprobs = 5;
  sequence.sampling.repetition_penalty = 1.1f;
  sequence.sampling.top_p = 0.9f;
  ASSERT_TRUE((*stage)->Open(1, sequence).ok());
  ASSERT_TRUE((*stage)->Open(2, sequence).ok());
  std::vector<int32_t> tokens(150, 7);
  std::vector<Segment> segments(2);
  uint64_t hash = 0;
  uint32_t begin = 0;
  for (uint32_t count : {40u / 2, 1u, 1u, 30u, 1u}) {
    for (uint32_t s = 0; s < 2; ++s) {
      segments[s] = Segment{.sequence = s + 1,
                            .begin = begin,
                            .outputs = Outputs::kLast,
                            .return_logits = true,
                            .recompute = false,
                            .prefix_hash = hash,
                            .tokens = std::span(tokens).first(count)};
    }
    ForwardOutput output;
    g_allocations = 0;
    g_count = true;
    const absl::Status status = (*stage)->Forward({segments, {}}, &output);
    g_count = false;
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(output.sampled.size(), 2u);
    EXPECT_EQ(output.layer_steps, 3u * 2 * count);
    EXPECT_EQ(g_allocations.load(), 0u) << "at position " << begin;
    begin += count;
    hash = PrefixHash(std::span(tokens).first(begin));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HostMemory, testing::Values("llama", "qwen35", "qwen35moe"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace spillway::cpu
