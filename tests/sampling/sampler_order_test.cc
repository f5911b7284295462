// Goal: penalties, logit bias, mask, top-k, top-p, min-p, temperature and draw happen in this order. Each
// case is small enough to be worked out by hand, and would come out differently with the two steps in
// question exchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "engine/base/philox.h"
#include "tests/sampling/drawer.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

std::vector<float> LogsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

Drawer FourTokens() { return Drawer(LogsOf({0.5, 0.25, 0.15, 0.1})); }

TEST(SamplerOrder, RepetitionDividesPositiveAndMultipliesNegativeLogits) {
  const SamplingParams params{.temperature = 0.0f, .repetition_penalty = 2.0f};
  EXPECT_EQ(Drawer({2.0f, 1.5f}, {0}, 1).Draw(params), 1);    // 2 / 2 = 1
  EXPECT_EQ(Drawer({-1.0f, -1.5f}, {0}, 1).Draw(params), 1);  // -1 * 2 = -2
}

TEST(SamplerOrder, RepetitionCountsATokenOnceInPromptAndOutput) {
  const SamplingParams params{.temperature = 0.0f, .repetition_penalty = 2.0f};
  EXPECT_EQ(Drawer({8.0f, 3.9f}, {0, 0, 0, 0}, 2).Draw(params), 0);  // 4, were it not 8 / 2^4
  EXPECT_EQ(Drawer({8.0f, 4.1f}, {0, 0, 0, 0}, 2).Draw(params), 1);
}

TEST(SamplerOrder, PresenceAndFrequencyLookAtTheOutputOnly) {
  SamplingParams params{.temperature = 0.0f, .presence_penalty = 1.0f};
  EXPECT_EQ(Drawer({2.0f, 1.5f}, {0, 0, 1}, 3).Draw(params), 0);
  EXPECT_EQ(Drawer({2.0f, 1.5f}, {0, 0}, 1).Draw(params), 1);     // 2 - 1
  EXPECT_EQ(Drawer({2.0f, 0.9f}, {0, 0, 0}, 0).Draw(params), 0);  // once, however often it occurs
  params = {.temperature = 0.0f, .frequency_penalty = 0.5f};
  EXPECT_EQ(Drawer({2.0f, 0.6f}, {0, 0, 0, 0}, 2).Draw(params), 0);  // 2 - 2 * 0.5 = 1
  EXPECT_EQ(Drawer({2.0f, 1.1f}, {0, 0, 0, 0}, 2).Draw(params), 1);
  params.frequency_penalty = -0.5f;                                  // an encouragement
  EXPECT_EQ(Drawer({2.0f, 1.1f}, {1, 1, 1, 1}, 2).Draw(params), 1);  // 1.1 + 1
}

TEST(SamplerOrder, PresenceComesAfterRepetition) {
  // 4 / 2 - 1 = 1, against (4 - 1) / 2 = 1.5.
  const SamplingParams params{.temperature = 0.0f, .repetition_penalty = 2.0f, .presence_penalty = 1.0f};
  EXPECT_EQ(Drawer({4.0f, 1.2f}, {0}, 0).Draw(params), 1);
}

TEST(SamplerOrder, BiasComesAfterPenalties) {
  // 3 / 2 + 1 = 2.5, against (3 + 1) / 2 = 2.
  const SamplingParams params{.temperature = 0.0f, .repetition_penalty = 2.0f, .logit_bias = {{1, 1.0f}}};
  EXPECT_EQ(Drawer({2.2f, 3.0f}, {1}, 1).Draw(params), 1);
}

TEST(SamplerOrder, BiasOnOneTokenAddsUp) {
  const SamplingParams params{.temperature = 0.0f, .logit_bias = {{1, 1.0f}, {1, 1.0f}}};
  EXPECT_EQ(Drawer({1.5f, 0.0f}).Draw(params), 1);
}

TEST(SamplerOrder, MaskComesAfterBias) {
  const SamplingParams params{
      .temperature = 0.0f, .logit_bias = {{0, 100.0f}}, .stop_ids = {0}, .min_tokens = 1};
  EXPECT_EQ(Drawer({5.0f, 1.0f}).Draw(params), 1);
}

TEST(SamplerOrder, MaskHoldsUntilMinTokensWereGenerated) {
  const SamplingParams params{.temperature = 0.0f, .stop_ids = {0, 2}, .min_tokens = 2};
  EXPECT_EQ(Drawer({5.0f, 1.0f, 4.0f}, {1, 1, 1}, 3).Draw(params), 1);
  EXPECT_EQ(Drawer({5.0f, 1.0f, 4.0f}, {1, 1, 1, 1}, 3).Draw(params), 1);
  EXPECT_EQ(Drawer({5.0f, 1.0f, 4.0f}, {1, 1, 1, 1, 1}, 3).Draw(params), 0);
}

TEST(SamplerOrder, MaskComesBeforeTopK) {
  const SamplingParams params{.top_k = 2, .stop_ids = {0}, .min_tokens = 1};
  EXPECT_THAT(FourTokens().Support(params), ElementsAre(1, 2));
}

TEST(SamplerOrder, PenaltiesComeBeforeTopK) {
  const SamplingParams params{.top_k = 1, .presence_penalty = 2.0f};
  EXPECT_THAT(Drawer(LogsOf({0.5, 0.25, 0.15, 0.1}), {0}, 0).Support(params), ElementsAre(1));
}

TEST(SamplerOrder, TopPIsAShareOfWhatTopKLeft) {
  // Of {0.5, 0.25} the first has 2/3; of all four it has 1/2.
  EXPECT_THAT(FourTokens().Support({.top_k = 2, .top_p = 0.6f}), ElementsAre(0));
  EXPECT_THAT(FourTokens().Support({.top_p = 0.6f}), ElementsAre(0, 1));
}

TEST(SamplerOrder, TopPKeepsTheTokenThatCrossesTheShare) {
  EXPECT_THAT(FourTokens().Support({.top_p = 0.01f}), ElementsAre(0));
  EXPECT_THAT(FourTokens().Support({.top_p = 0.74f}), ElementsAre(0, 1));
  EXPECT_THAT(FourTokens().Support({.top_p = 0.76f}), ElementsAre(0, 1, 2));
  EXPECT_THAT(FourTokens().Support({.top_p = 0.95f}), ElementsAre(0, 1, 2, 3));
}

TEST(SamplerOrder, MinPIsRelativeToTheLikeliest) {
  EXPECT_THAT(FourTokens().Support({.min_p = 0.4f}), ElementsAre(0, 1));      // at least 0.2
  EXPECT_THAT(FourTokens().Support({.min_p = 0.28f}), ElementsAre(0, 1, 2));  // at least 0.14
  EXPECT_THAT(FourTokens().Support({.min_p = 0.99f}), ElementsAre(0));
}

TEST(SamplerOrder, TemperatureComesAfterTopP) {
  // At temperature 5 the four have 0.29, 0.26, 0.23, 0.22: a top-p of 0.74 would keep three.
  EXPECT_THAT(FourTokens().Support({.temperature = 5.0f, .top_p = 0.74f}), ElementsAre(0, 1));
  // At temperature 1/3 they have 0.86, 0.11, 0.02, 0.01: a top-p of 0.76 would keep one.
  EXPECT_THAT(FourTokens().Support({.temperature = 0.3333f, .top_p = 0.76f}), ElementsAre(0, 1, 2));
}

TEST(SamplerOrder, TemperatureComesAfterMinP) {
  EXPECT_THAT(FourTokens().Support({.temperature = 5.0f, .min_p = 0.4f}), ElementsAre(0, 1));
  EXPECT_THAT(FourTokens().Support({.temperature = 0.3333f, .min_p = 0.28f}), ElementsAre(0, 1, 2));
}

TEST(SamplerOrder, DrawInvertsTheCumulativeDistributionInOrderOfId) {
  Drawer drawer = FourTokens();
  const SamplingParams params{.seed = 42, .choice = 3};
  for (uint64_t position = 0; position < 500; ++position) {
    const double u = UniformDraw(42, 3, position);
    const int32_t expected = u < 0.5 ? 0 : u < 0.75 ? 1 : u < 0.9 ? 2 : 3;
    EXPECT_EQ(drawer.Draw(params, position), expected) << u;
  }
}

TEST(SamplerOrder, DrawUsesTheTemperature) {
  // Temperature 1/2 squares the odds: 25 : 6.25 : 2.25 : 1.
  Drawer drawer = FourTokens();
  const SamplingParams params{.temperature = 0.5f, .seed = 7};
  for (uint64_t position = 0; position < 500; ++position) {
    const double u = UniformDraw(7, 0, position) * 34.5;
    const int32_t expected = u < 25.0 ? 0 : u < 31.25 ? 1 : u < 33.5 ? 2 : 3;
    EXPECT_EQ(drawer.Draw(params, position), expected) << u;
  }
}

}  // namespace
TEST(SamplerOrder, TheMaskComesAfterTheBiasAndBeforeTopK) {
  const std::vector<float> logits = LogsOf({0.5, 0.25, 0.15, 0.1});
  std::vector<std::byte> memory(SamplerScratch::Bytes(4) + 64);
  void* aligned = memory.data();
  size_t space = memory.size();
  std::align(64, SamplerScratch::Bytes(4), aligned, space);
  SamplerScratch scratch({static_cast<std::byte*>(aligned), SamplerScratch::Bytes(4)}, 4);
  const auto draw = [&](uint8_t bits, const SamplingParams& params, uint64_t position = 1) {
    const int32_t history[] = {0};
    DrawInput input{logits, history, 1, position};
    input.mask = std::span(&bits, 1);
    return DrawToken(input, params, scratch, {}).token;
  };
  const SamplingParams greedy{.temperature = 0.0f};
  EXPECT_EQ(draw(0b1111, greedy), 0);
  EXPECT_EQ(draw(0b1100, greedy), 2);
  // No bias brings a masked token back, and top-k counts the allowed ones only.
  EXPECT_EQ(draw(0b1100, {.temperature = 0.0f, .logit_bias = {{0, 100.0f}}}), 2);
  EXPECT_EQ(draw(0b1000, {.temperature = 1.0f, .top_k = 1}), 3);
  bool seen[4] = {};
  for (uint64_t position = 0; position < 200; ++position)
    seen[draw(0b1010, {.temperature = 1.0f, .seed = 3}, position)] = true;
  EXPECT_TRUE(!seen[0] && seen[1] && !seen[2] && seen[3]);
}

}  // namespace spillway
