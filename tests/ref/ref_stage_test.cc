// RefStage as a Stage: chunks, batches, forks, rewinds and recomputes never change a bit; what is malformed
// is refused without touching anything else. Runs on a tiny model made here.
#include "engine/ref/ref_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/stage/local_pipeline.h"
#include "tests/model/tiny_model.h"

namespace spillway::ref {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocab = 48;

StageOptions Options() {
  StageOptions options;
  options.n_ctx = 96;
  options.kv_pages = 12;
  options.max_sequences = 4;
  options.max_rows = 96;
  return options;
}

std::vector<int32_t> Tokens(uint32_t count, int32_t step = 7) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back((3 + static_cast<int32_t>(i) * step) % kVocab);
  return tokens;
}

class RefStageTest : public testing::Test {
 protected:
  void SetUp() override {
    tiny::TinyModelSpec spec;
    spec.rope_freqs = true;
    auto model = tiny::LoadTinyModel(spec);
    ASSERT_TRUE(model.ok()) << MessageOf(model.status());
    model_ = std::make_unique<Model>(std::move(*model));
    stage_ = Make({0, 3, true, true});
  }

  std::unique_ptr<Stage> Make(StageUnits units) {
    auto stage = CreateRefStage(*model_, units, Options());
    EXPECT_TRUE(stage.ok()) << MessageOf(stage.status());
    return stage.ok() ? std::move(*stage) : nullptr;
  }

  std::vector<float> Logits(std::vector<Stage*> stages, std::span<const int32_t> tokens, uint32_t chunk) {
    auto logits = AllLogits(stages, tokens, chunk);
    EXPECT_TRUE(logits.ok()) << MessageOf(logits.status());
    return logits.ok() ? std::move(*logits) : std::vector<float>();
  }

  static Segment MakeSegment(SequenceId sequence, std::span<const int32_t> all, uint32_t begin,
                             uint32_t end) {
    Segment segment;
    segment.sequence = sequence;
    segment.begin = begin;
    segment.outputs = Outputs::kLast;
    segment.return_logits = true;
    segment.prefix_hash = PrefixHash(all.first(begin));
    segment.tokens = all.subspan(begin, end - begin);
    return segment;
  }

  // Last row's logits of the segment run alone.
  std::vector<float> Run(const Segment& segment) {
    ForwardOutput output;
    const absl::Status status = RunMicroBatch(std::vector<Stage*>{stage_.get()}, {&segment, 1}, &output);
    EXPECT_TRUE(status.ok()) << MessageOf(status);
    if (!status.ok() || output.sampled.empty()) return {};
    const auto logits = output.sampled.back().logits;
    return {logits.begin(), logits.end()};
  }

  std::vector<float> LastLogits(std::span<const int32_t> tokens) {
    std::vector<float> all = Logits({Make({0, 3, true, true}).get()}, tokens, 96);
    return {all.end() - kVocab, all.end()};
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Stage> stage_;
};

TEST_F(RefStageTest, GivesTheSameBitsInEveryChunking) {
  const std::vector<int32_t> tokens = Tokens(70);
  const std::vector<float> whole = Logits({stage_.get()}, tokens, 96);
  ASSERT_EQ(whole.size(), 70u * kVocab);
  for (const uint32_t chunk : {1u, 7u, 32u}) EXPECT_EQ(Logits({stage_.get()}, tokens, chunk), whole) << chunk;
  EXPECT_EQ(stage_->FreePages(), 12u) << "the pipeline closes its sequence";
}

TEST_F(RefStageTest, SplitsWithNoMoreThanTheRoundingOfTheBorder) {
  const std::vector<int32_t> tokens = Tokens(20);
  const std::vector<float> whole = Logits({stage_.get()}, tokens, 96);
  for (uint32_t split = 0; split <= 3; ++split) {
    const auto first = Make({0, split, true, false});
    const auto second = Make({split, 3, false, true});
    const std::vector<float> parts = Logits({first.get(), second.get()}, tokens, 6);
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(parts[i], whole[i], 1e-5) << "split " << split;
  }
}

TEST_F(RefStageTest, PositionsMatter) {
  const std::vector<float> logits = Logits({stage_.get()}, std::vector<int32_t>{5, 9, 9, 5}, 4);
  EXPECT_FALSE(std::equal(logits.begin() + kVocab, logits.begin() + 2 * kVocab, logits.begin() + 2 * kVocab));
}

TEST_F(RefStageTest, BatchesSequencesWithoutMixingThem) {
  const std::vector<int32_t> a = Tokens(10), b = Tokens(33, 5);
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  ASSERT_TRUE(stage_->Open(2, {}).ok());
  const Segment segments[] = {MakeSegment(1, a, 0, 10), MakeSegment(9, a, 0, 10), MakeSegment(2, b, 0, 33)};
  ForwardOutput output;
  ASSERT_TRUE(stage_->Forward({segments, {}}, &output).ok());
  EXPECT_EQ(output.segments[1].code, SegmentCode::kUnknownSequence);
  EXPECT_THAT(output.segments[1].error, HasSubstr("9"));
  ASSERT_EQ(output.sampled.size(), 2u);
  EXPECT_EQ(output.sampled[0].position, 9u);
  EXPECT_EQ(output.sampled[1].segment, 2u);
  EXPECT_EQ(output.layer_steps, 3u * 43u);
  EXPECT_THAT(output.sampled[0].logits, testing::ElementsAreArray(LastLogits(a)));
  EXPECT_THAT(output.sampled[1].logits, testing::ElementsAreArray(LastLogits(b)));
}

TEST_F(RefStageTest, RewindsAndContinuesDifferently) {
  const std::vector<int32_t> first = Tokens(40);
  std::vector<int32_t> second = first;
  for (size_t i = 35; i < second.size(); ++i) second[i] = 1;
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  Run(MakeSegment(1, first, 0, 40));
  EXPECT_EQ(Run(MakeSegment(1, second, 35, 40)), LastLogits(second));
}

TEST_F(RefStageTest, ForksShareNothingThatIsWrittenLater) {
  const std::vector<int32_t> trunk = Tokens(50);
  std::vector<int32_t> branch(trunk.begin(), trunk.begin() + 41);
  branch.resize(60, 2);
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  Run(MakeSegment(1, trunk, 0, 45));
  ASSERT_TRUE(stage_->Fork(1, 2, 41).ok());
  EXPECT_EQ(Run(MakeSegment(2, branch, 41, 60)), LastLogits(branch));
  EXPECT_EQ(Run(MakeSegment(1, trunk, 45, 50)), LastLogits(trunk));
}

TEST_F(RefStageTest, RecomputesWithoutWriting) {
  const std::vector<int32_t> tokens = Tokens(34);
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  const std::vector<float> once = Run(MakeSegment(1, tokens, 0, 34));
  Segment again = MakeSegment(1, tokens, 30, 34);
  again.recompute = true;
  EXPECT_EQ(Run(again), once);
  Segment middle = MakeSegment(1, tokens, 3, 20);
  middle.recompute = true;
  EXPECT_EQ(Run(middle), LastLogits(std::span(tokens).first(20)));
}

TEST_F(RefStageTest, AsksForReplayWhereStateIsMissingOrOther) {
  const std::vector<int32_t> tokens = Tokens(12);
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  Run(MakeSegment(1, tokens, 0, 8));
  Segment other = MakeSegment(1, tokens, 8, 12);
  ++other.prefix_hash;
  ForwardOutput output;
  for (const Segment& segment : {MakeSegment(1, tokens, 9, 12), other}) {
    ASSERT_TRUE(stage_->Forward({{&segment, 1}, {}}, &output).ok());
    EXPECT_EQ(output.segments[0].code, SegmentCode::kNeedsReplay);
    EXPECT_EQ(output.segments[0].held_tokens, 8u);
    EXPECT_EQ(output.layer_steps, 0u);
  }
  EXPECT_EQ(Run(MakeSegment(1, tokens, 8, 12)), LastLogits(tokens));
}

TEST_F(RefStageTest, ReportsTheDistributionItDrewFrom) {
  SequenceOptions options;
  options.sampling.temperature = 0.0f;
  options.sampling.logprobs = true;
  options.sampling.n_logprobs = 3;
  ASSERT_TRUE(stage_->Open(1, options).ok());
  const std::vector<int32_t> tokens = Tokens(6);
  const Segment segment = MakeSegment(1, tokens, 0, 6);
  ForwardOutput output;
  ASSERT_TRUE(stage_->Forward({{&segment, 1}, {}}, &output).ok());
  ASSERT_EQ(output.sampled.size(), 1u);
  const SampledRow& row = output.sampled[0];
  const auto best = std::max_element(row.logits.begin(), row.logits.end());
  EXPECT_EQ(row.chosen.token, best - row.logits.begin());
  ASSERT_EQ(row.top.size(), 3u);
  EXPECT_EQ(row.top[0].token, row.chosen.token);
  EXPECT_LT(row.chosen.logprob, 0.0f);
}

TEST_F(RefStageTest, RefusesMalformedMicroBatches) {
  const std::vector<int32_t> tokens = Tokens(97);
  ASSERT_TRUE(stage_->Open(1, {}).ok());
  const Segment too_long = MakeSegment(1, tokens, 0, 97);
  const Segment fine = MakeSegment(1, tokens, 0, 2);
  const std::vector<float> activations(128);
  ForwardOutput output;
  EXPECT_EQ(stage_->Forward({{&too_long, 1}, {}}, &output).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stage_->Forward({{&fine, 1}, activations}, &output).code(), absl::StatusCode::kInvalidArgument);
  const auto later = Make({1, 3, false, true});
  ASSERT_TRUE(later->Open(1, {}).ok());
  const absl::Status status = later->Forward({{&fine, 1}, std::span(activations).first(127)}, &output);
  EXPECT_THAT(MessageOf(status), testing::AllOf(HasSubstr("127"), HasSubstr("128")));
}

TEST_F(RefStageTest, RefusesUnitsThatTheModelDoesNotHave) {
  const StageUnits wrong[] = {{0, 4, true, true},  {2, 1, false, false}, {1, 1, false, false},
                              {1, 3, true, false}, {0, 2, true, true},   {4, 4, false, true}};
  for (const StageUnits& units : wrong) {
    EXPECT_EQ(CreateRefStage(*model_, units, Options()).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(RefStageTest, BooksWeightsAndPages) {
  const auto middle = Make({1, 2, false, false});
  // q, k, v, output, three feed-forward matrices and two norms of one layer as float32.
  const uint64_t values = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 96 * 64 + 2 * 64;
  EXPECT_EQ(middle->Allocated()[Purpose::kWeights], values * 4);
  EXPECT_EQ(middle->Allocated()[Purpose::kKvCache], 12u * 32 * 2 * 32 * 8);
}

TEST_F(RefStageTest, DecodesGreedily) {
  const std::vector<int32_t> prompt = Tokens(5);
  Stage* stages[] = {stage_.get()};
  const auto tokens = GreedyTokens(stages, prompt, 6, 2);
  ASSERT_TRUE(tokens.ok()) << MessageOf(tokens.status());
  std::vector<int32_t> all = prompt;
  for (const int32_t token : *tokens) {
    const std::vector<float> logits = LastLogits(all);
    EXPECT_EQ(token, std::max_element(logits.begin(), logits.end()) - logits.begin());
    all.push_back(token);
  }
}

TEST_F(RefStageTest, PipelinesWithoutAHeadAreRefused) {
  const auto first = Make({0, 2, true, false});
  Stage* stages[] = {first.get()};
  EXPECT_EQ(AllLogits(stages, Tokens(3), 8).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AllLogits({}, Tokens(3), 8).status().code(), absl::StatusCode::kInvalidArgument);
}

// That biases and QK-norms are applied at the right place is the golden cases' business (qwen2); here, that
// they run.
TEST(RefStage, RunsEveryArchitectureOfTheTable) {
  for (const std::string architecture : {"llama", "qwen2", "qwen3"}) {
    tiny::TinyModelSpec plain;
    plain.architecture = architecture;
    plain.qkv_bias = architecture != "qwen3";
    plain.output_bias = architecture == "llama";
    plain.qk_norm = architecture == "qwen3";
    plain.tied_head = true;
    const auto model = tiny::LoadTinyModel(plain);
    ASSERT_TRUE(model.ok()) << MessageOf(model.status());
    auto stage = CreateRefStage(*model, {0, 3, true, true}, Options());
    ASSERT_TRUE(stage.ok()) << MessageOf(stage.status());
    Stage* stages[] = {stage->get()};
    const auto logits = AllLogits(stages, Tokens(9), 4);
    ASSERT_TRUE(logits.ok()) << MessageOf(logits.status());
    for (const float logit : *logits) ASSERT_TRUE(std::isfinite(logit));
  }
}

}  // namespace
}  // namespace spillway::ref
