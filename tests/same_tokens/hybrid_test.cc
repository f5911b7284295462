// Recurrent state cannot be rewound: truncation, forks, recomputes, frames sent again and replays at every
// position of a sequence must equal a fresh run, bit by bit, in the reference and on the host; and so must
// every split, chunk, thread count and ISA level. Runs on tiny models made here.
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/ref/ref_stage.h"
#include "engine/stage/local_pipeline.h"
#include "tests/support/expect_close.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace spillway {
namespace {

constexpr uint32_t kLayers = 4;
constexpr uint32_t kTokens = 40;

struct Backend {
  std::string architecture;
  bool host;
};

class Hybrid : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    test::TinyModel tiny;
    tiny.architecture = GetParam().architecture;
    tiny.n_layer = kLayers;
    const auto path = test::WriteTinyModel(tiny, dir_.File("tiny.gguf"));
    ASSERT_TRUE(path.ok()) << path.status();
    auto model = LoadModel(*path);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = std::make_unique<Model>(std::move(*model));
    for (uint32_t i = 0; i <= kTokens; ++i) tokens_.push_back(static_cast<int32_t>((i * 37 + 11) % 256));
    stage_ = Make({0, kLayers, true, true}, GetParam().host);
    fresh_ = Fresh(tokens_);
    ASSERT_EQ(fresh_.size(), tokens_.size() * model_->config.n_vocab);
  }

  std::unique_ptr<Stage> Make(const StageUnits& units, bool host, uint32_t threads = 1,
                              cpu::Isa isa = cpu::DetectIsa()) {
    StageOptions options;
    options.n_ctx = 64;
    options.kv_pages = 16;
    options.max_sequences = 4;
    options.max_rows = 64;
    options.threads = threads;
    auto stage = host ? cpu::CreateHostStageOn(isa, *model_, units, options, ledger_)
                      : ref::CreateRefStage(*model_, units, options);
    EXPECT_TRUE(stage.ok()) << stage.status();
    return std::move(*stage);
  }

  std::vector<float> Fresh(std::span<const int32_t> tokens) {
    const auto own = Make({0, kLayers, true, true}, GetParam().host);
    Stage* stage = own.get();
    return *AllLogits(std::span<Stage* const>(&stage, 1), tokens, 16);
  }

  std::span<const float> RowOf(std::span<const float> logits, uint32_t position) const {
    return logits.subspan(uint64_t{position} * model_->config.n_vocab, model_->config.n_vocab);
  }
  std::span<const float> RowOf(uint32_t position) const { return RowOf(fresh_, position); }

  SegmentResult Run(SequenceId id, std::span<const int32_t> tokens, uint32_t begin, uint32_t end,
                    bool recompute = false) {
    Segment segment;
    segment.sequence = id;
    segment.begin = begin;
    segment.outputs = Outputs::kLast;
    segment.return_logits = true;
    segment.recompute = recompute;
    segment.prefix_hash = PrefixHash(tokens.first(begin));
    segment.tokens = tokens.subspan(begin, end - begin);
    ForwardOutput output;
    const absl::Status status = stage_->Forward({{&segment, 1}, {}}, &output);
    EXPECT_TRUE(status.ok()) << status;
    last_.clear();
    if (!output.sampled.empty()) {
      last_.assign(output.sampled[0].logits.begin(), output.sampled[0].logits.end());
    }
    return output.segments[0];
  }

  // As a gateway does: where the state is not held, from where it is. Leaves the last row's logits in last_;
  // returns where the segment that ran began.
  uint32_t RunOrReplay(SequenceId id, std::span<const int32_t> tokens, uint32_t begin, uint32_t end,
                       bool recompute = false) {
    const SegmentResult result = Run(id, tokens, begin, end, recompute);
    if (result.code == SegmentCode::kOk) return begin;
    EXPECT_EQ(result.code, SegmentCode::kNeedsReplay) << result.error;
    EXPECT_LT(result.resume_tokens, begin);
    ++replays_;
    const SegmentResult again = Run(id, tokens, result.resume_tokens, end, recompute);
    EXPECT_EQ(again.code, SegmentCode::kOk) << again.error;
    return result.resume_tokens;
  }

  void Feed(SequenceId id, uint32_t begin, uint32_t end, uint32_t chunk) {
    for (; begin < end; begin += chunk) {
      ASSERT_EQ(Run(id, tokens_, begin, std::min(begin + chunk, end)).code, SegmentCode::kOk);
    }
  }

  test::TempDir dir_;
  Ledger ledger_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Stage> stage_;
  std::vector<int32_t> tokens_;  // one more than kTokens
  std::vector<float> fresh_, last_;
  uint32_t replays_ = 0;
};

TEST_P(Hybrid, TruncationAndReplayAtEveryPositionEqualAFreshRun) {
  for (const uint32_t chunk : {1u, 7u, kTokens}) {
    for (uint32_t begin = 0; begin < kTokens; ++begin) {
      SCOPED_TRACE(testing::Message() << "chunk " << chunk << ", back to " << begin);
      ASSERT_TRUE(stage_->Open(1, {}).ok());
      Feed(1, 0, kTokens, chunk);
      const uint32_t sent = RunOrReplay(1, tokens_, begin, begin + 1);
      test::ExpectSameBits(last_, RowOf(begin));
      // The frame sent again needs no replay.
      ASSERT_EQ(Run(1, tokens_, sent, begin + 1).code, SegmentCode::kOk);
      test::ExpectSameBits(last_, RowOf(begin));
      Feed(1, begin + 1, kTokens + 1, chunk);
      test::ExpectSameBits(last_, RowOf(kTokens));
    }
  }
  EXPECT_GT(replays_, 0u);
}

TEST_P(Hybrid, AnotherContinuationFromEveryPositionEqualsAFreshRun) {
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  std::vector<int32_t> other = tokens_;
  for (uint32_t begin = kTokens - 1; begin > 0; --begin) {
    SCOPED_TRACE(begin);
    other[begin] = (tokens_[begin] + 5) % 256;
    Feed(1, 0, begin, 6);
    RunOrReplay(1, other, begin, kTokens);
    const std::vector<float> fresh = Fresh(other);
    test::ExpectSameBits(last_, RowOf(fresh, kTokens - 1));
    RunOrReplay(1, tokens_, begin, begin + 1);  // and back
    test::ExpectSameBits(last_, RowOf(begin));
    other[begin] = tokens_[begin];
  }
}

TEST_P(Hybrid, ForksAtEveryPositionEqualAFreshRunAndLeaveTheirSource) {
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  Feed(1, 0, kTokens, 3);
  const uint32_t free_pages = stage_->FreePages();
  for (uint32_t tokens = 0; tokens < kTokens; ++tokens) {
    SCOPED_TRACE(tokens);
    ASSERT_TRUE(stage_->Fork(1, 2, tokens).ok());
    RunOrReplay(2, tokens_, tokens, tokens + 1);
    test::ExpectSameBits(last_, RowOf(tokens));
    ASSERT_TRUE(stage_->Fork(2, 3, tokens + 1).ok());
    RunOrReplay(3, tokens_, tokens + 1, kTokens + 1);
    test::ExpectSameBits(last_, RowOf(kTokens));
    stage_->Close(2);
    stage_->Close(3);
    EXPECT_EQ(stage_->FreePages(), free_pages);
  }
  ASSERT_EQ(Run(1, tokens_, kTokens, kTokens + 1).code, SegmentCode::kOk);
  test::ExpectSameBits(last_, RowOf(kTokens));
}

TEST_P(Hybrid, RecomputesAtEveryPositionEqualAFreshRunAndChangeNothing) {
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  Feed(1, 0, kTokens, 9);
  for (uint32_t begin = 0; begin < kTokens; ++begin) {
    SCOPED_TRACE(begin);
    RunOrReplay(1, tokens_, begin, begin + 1, true);
    test::ExpectSameBits(last_, RowOf(begin));
    ASSERT_EQ(Run(1, tokens_, kTokens, kTokens + 1).code, SegmentCode::kOk);
    test::ExpectSameBits(last_, RowOf(kTokens));
  }
  // A later stage's rebuild: everything again, chunk after chunk, beside the newest state.
  for (uint32_t begin = 0; begin < kTokens; begin += 5) {
    ASSERT_EQ(Run(1, tokens_, begin, begin + 5, true).code, SegmentCode::kOk);
    test::ExpectSameBits(last_, RowOf(begin + 4));
  }
  ASSERT_EQ(Run(1, tokens_, kTokens, kTokens + 1).code, SegmentCode::kOk);
  test::ExpectSameBits(last_, RowOf(kTokens));
}

TEST_P(Hybrid, SequencesInOneMicroBatchDoNotTouchEachOther) {
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(stage_->Open(id, {}).ok());
  std::vector<uint32_t> held(4, 0);
  for (uint32_t step = 0; held[1] + 4 < kTokens; ++step) {
    std::vector<Segment> segments;
    for (SequenceId id = 1; id <= 3; ++id) {
      Segment segment;
      segment.sequence = id;
      segment.begin = held[id];
      segment.outputs = Outputs::kLast;
      segment.return_logits = true;
      segment.prefix_hash = PrefixHash(std::span(tokens_).first(held[id]));
      segment.tokens = std::span(tokens_).subspan(held[id], 1 + (step + id) % 3);
      held[id] += segment.count();
      segments.push_back(segment);
    }
    ForwardOutput output;
    ASSERT_TRUE(stage_->Forward({segments, {}}, &output).ok());
    ASSERT_EQ(output.sampled.size(), 3u);
    for (const SampledRow& row : output.sampled) test::ExpectSameBits(row.logits, RowOf(row.position));
  }
}

TEST_P(Hybrid, IsTheSameAtEverySplitChunkThreadCountAndIsaLevel) {
  const bool host = GetParam().host;
  const auto check = [&](const std::vector<StageUnits>& units, uint32_t chunk, uint32_t threads,
                         cpu::Isa isa) {
    std::vector<std::unique_ptr<Stage>> stages;
    std::vector<Stage*> pointers;
    for (const StageUnits& unit : units) {
      stages.push_back(Make(unit, host, threads, isa));
      pointers.push_back(stages.back().get());
    }
    const auto logits = AllLogits(pointers, tokens_, chunk);
    ASSERT_TRUE(logits.ok()) << logits.status();
    if (host || units.size() == 1) {
      test::ExpectSameBits(*logits, fresh_);
    } else {
      // What passes between stages is float32; inside a reference stage it is double.
      for (size_t i = 0; i < fresh_.size(); ++i) ASSERT_NEAR((*logits)[i], fresh_[i], 1e-4) << i;
    }
  };
  for (uint32_t split = 0; split <= kLayers; ++split) {
    SCOPED_TRACE(testing::Message() << "split " << split);
    check({{0, split, true, false}, {split, kLayers, false, true}}, 7, 1, cpu::DetectIsa());
  }
  if (!host) return;
  for (const uint32_t chunk : {1u, 5u, 16u}) {
    for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::DetectIsa()}) {
      SCOPED_TRACE(testing::Message() << "chunk " << chunk << " on " << std::string(cpu::IsaName(isa)));
      check({{0, kLayers, true, true}}, chunk, chunk % 4 + 1, isa);
    }
  }
}

TEST_P(Hybrid, HostAgreesWithTheReference) {
  if (!GetParam().host) GTEST_SKIP() << "this is the reference";
  const auto reference = Make({0, kLayers, true, true}, false);
  Stage* stage = reference.get();
  const auto logits = AllLogits(std::span<Stage* const>(&stage, 1), tokens_, 16);
  ASSERT_TRUE(logits.ok()) << logits.status();
  for (size_t i = 0; i < fresh_.size(); ++i) ASSERT_NEAR((*logits)[i], fresh_[i], 0.06) << i;
}

INSTANTIATE_TEST_SUITE_P(Backends, Hybrid,
                         testing::Values(Backend{"qwen35", false}, Backend{"qwen35", true},
                                         Backend{"qwen35moe", false}, Backend{"qwen35moe", true},
                                         Backend{"qwen3next", false}, Backend{"qwen3next", true}),
                         [](const auto& info) {
                           return info.param.architecture + (info.param.host ? "_host" : "_ref");
                         });

}  // namespace
}  // namespace spillway
