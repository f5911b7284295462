// Law 1 in one process: any split, chunking, batch, thread count and ISA level gives bit-identical logits; so
// do truncation, forks, replay and recompute.
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/stage/local_pipeline.h"
#include "tests/support/expect_close.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace spillway::cpu {
namespace {

class SameTokens : public testing::TestWithParam<TensorType> {
 protected:
  void SetUp() override {
    test::TinyModel tiny;
    tiny.n_layer = 4;
    tiny.n_embd = 256;
    tiny.n_head = 4;
    tiny.n_head_kv = 2;
    tiny.n_ff = 256;
    tiny.weight_type = GetParam();
    const auto path = test::WriteTinyModel(tiny, dir_.File("tiny.gguf"));
    ASSERT_TRUE(path.ok()) << path.status();
    auto model = LoadModel(*path);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = std::make_unique<Model>(std::move(*model));
    for (int i = 0; i < 45; ++i) tokens_.push_back((i * 37 + 11) % 256);
    unsplit_ = Logits({{0, 4, true, true}}, 16, 1, DetectIsa());
    ASSERT_EQ(unsplit_.size(), tokens_.size() * model_->config.n_vocab);
  }

  std::vector<std::unique_ptr<Stage>> Make(const std::vector<StageUnits>& units, uint32_t threads, Isa isa) {
    StageOptions options;
    options.n_ctx = 256;
    options.kv_pages = 40;
    options.max_rows = 64;
    options.threads = threads;
    std::vector<std::unique_ptr<Stage>> stages;
    for (const StageUnits& unit : units) {
      auto stage = CreateHostStageOn(isa, *model_, unit, options, ledger_);
      EXPECT_TRUE(stage.ok()) << stage.status();
      stages.push_back(std::move(*stage));
    }
    return stages;
  }

  static std::vector<Stage*> Pointers(const std::vector<std::unique_ptr<Stage>>& stages) {
    std::vector<Stage*> pointers;
    for (const auto& stage : stages) pointers.push_back(stage.get());
    return pointers;
  }

  std::vector<float> Logits(const std::vector<StageUnits>& units, uint32_t chunk, uint32_t threads, Isa isa) {
    const auto stages = Make(units, threads, isa);
    auto logits = AllLogits(Pointers(stages), tokens_, chunk);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? *logits : std::vector<float>{};
  }

  std::span<const float> RowOf(uint32_t position) const {
    return std::span(unsplit_).subspan(uint64_t{position} * model_->config.n_vocab, model_->config.n_vocab);
  }

  test::TempDir dir_;
  Ledger ledger_;
  std::unique_ptr<Model> model_;
  std::vector<int32_t> tokens_;
  std::vector<float> unsplit_;
};

TEST_P(SameTokens, AtEverySplitAndChunk) {
  for (uint32_t split = 0; split <= 4; ++split) {
    for (uint32_t chunk : {1u, 7u, 16u}) {
      SCOPED_TRACE(testing::Message() << "split " << split << " chunk " << chunk);
      test::ExpectSameBits(Logits({{0, split, true, false}, {split, 4, false, true}}, chunk, 1, DetectIsa()),
                           unsplit_);
    }
  }
  test::ExpectSameBits(
      Logits({{0, 1, true, false}, {1, 2, false, false}, {2, 3, false, false}, {3, 4, false, true}}, 5, 1,
             DetectIsa()),
      unsplit_);
}

TEST_P(SameTokens, OnEveryIsaLevelAndThreadCount) {
  for (Isa isa : {Isa::kScalar, Isa::kAvx2}) {
    Ledger probe;
    for (uint32_t threads : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << std::string(IsaName(isa)) << " threads " << threads);
      if (isa != Isa::kScalar && DetectIsa() == Isa::kScalar) continue;
      test::ExpectSameBits(Logits({{0, 4, true, true}}, 16, threads, isa), unsplit_);
    }
  }
}

// One sequence among others in the same micro-batches, cut back, forked, replayed and recomputed.
class Driver {
 public:
  Driver(Stage& stage, std::span<const int32_t> tokens) : stage_(stage), tokens_(tokens) {}

  Segment Make(SequenceId id, uint32_t begin, uint32_t count, bool recompute = false) const {
    Segment segment;
    segment.sequence = id;
    segment.begin = begin;
    segment.outputs = Outputs::kLast;
    segment.return_logits = true;
    segment.recompute = recompute;
    segment.prefix_hash = PrefixHash(tokens_.first(begin));
    segment.tokens = tokens_.subspan(begin, count);
    return segment;
  }

  ForwardOutput Run(std::vector<Segment> segments) {
    ForwardOutput output;
    const absl::Status status = stage_.Forward({segments, {}}, &output);
    EXPECT_TRUE(status.ok()) << status;
    return output;
  }

 private:
  Stage& stage_;
  std::span<const int32_t> tokens_;
};

TEST_P(SameTokens, InABatchOfFive) {
  const auto stages = Make({{0, 4, true, true}}, 1, DetectIsa());
  Driver driver(*stages[0], tokens_);
  for (SequenceId id = 1; id <= 5; ++id) ASSERT_TRUE(stages[0]->Open(id, {}).ok());
  // Sequence i starts i tokens late, so that every micro-batch mixes positions and counts.
  std::vector<uint32_t> held(6, 0);
  for (int step = 0; step < 12; ++step) {
    std::vector<Segment> segments;
    for (SequenceId id = 1; id <= 5; ++id) {
      const uint32_t count = 1 + (step + id) % 3;
      segments.push_back(driver.Make(id, held[id], count));
      held[id] += count;
    }
    const ForwardOutput output = driver.Run(segments);
    ASSERT_EQ(output.sampled.size(), 5u);
    for (const SampledRow& row : output.sampled) test::ExpectSameBits(row.logits, RowOf(row.position));
  }
}

TEST_P(SameTokens, AfterTruncationForkReplayAndRecompute) {
  const auto stages = Make({{0, 4, true, true}}, 1, DetectIsa());
  Stage& stage = *stages[0];
  Driver driver(stage, tokens_);
  ASSERT_TRUE(stage.Open(1, {}).ok());
  driver.Run({driver.Make(1, 0, 45)});
  const uint32_t free_pages = stage.FreePages();
  for (uint32_t begin = 44; begin-- > 1;) {
    SCOPED_TRACE(begin);
    test::ExpectSameBits(driver.Run({driver.Make(1, begin, 1, true)}).sampled[0].logits,
                         RowOf(begin));  // recompute
    ASSERT_TRUE(stage.Fork(1, 2, begin).ok());
    ASSERT_TRUE(stage.Fork(2, 3, begin).ok());
    test::ExpectSameBits(driver.Run({driver.Make(2, begin, 2)}).sampled[0].logits, RowOf(begin + 1));  // fork
    // Back into a page that the fork of the fork still shares, then on.
    test::ExpectSameBits(driver.Run({driver.Make(2, begin / 2, 1)}).sampled[0].logits, RowOf(begin / 2));
    test::ExpectSameBits(driver.Run({driver.Make(3, begin, 1)}).sampled[0].logits, RowOf(begin));
    stage.Close(2);
    stage.Close(3);
    EXPECT_EQ(stage.FreePages(), free_pages);
    test::ExpectSameBits(driver.Run({driver.Make(1, begin, 2)}).sampled[0].logits,
                         RowOf(begin + 1));                                       // truncation
    if (begin + 2 < 45) driver.Run({driver.Make(1, begin + 2, 45 - begin - 2)});  // replay
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SameTokens,
                         testing::Values(TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_0,
                                         TensorType::kQ4_1, TensorType::kQ4_K, TensorType::kQ6_K),
                         [](const auto& info) { return std::string(FormatOf(info.param).name); });

}  // namespace
}  // namespace spillway::cpu
