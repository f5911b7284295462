// Goal: ties, broken logits, replay, distribution and log-probabilities of single draws.
#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/sampling/drawer.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const SamplingParams kGreedy{.temperature = 0.0f};

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  for (const size_t size : {1, 2, 15, 16, 17, 33, 1000}) {
    std::vector<float> logits(size, -1.0f);
    EXPECT_EQ(Drawer(logits).Draw(kGreedy), 0);
    for (const size_t at : {size / 2, size - 1}) {
      logits.assign(size, -1.0f);
      for (size_t i = at; i < size; ++i) logits[i] = 2.0f;
      EXPECT_EQ(Drawer(logits).Draw(kGreedy), static_cast<int32_t>(at));
      EXPECT_EQ(Drawer(logits).Draw({.top_k = 1}), static_cast<int32_t>(at));
      // The same through the path that adjusts logits.
      EXPECT_EQ(Drawer(logits).Draw({.temperature = 0.0f, .logit_bias = {{0, 0.0f}}}),
                static_cast<int32_t>(at));
    }
  }
}

TEST(Sampler, TopKAndTopPKeepTheLowestIdsAmongEquals) {
  const std::vector<float> logits(50, 0.25f);
  EXPECT_THAT(Drawer(logits).Support({.top_k = 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(Drawer(logits).Support({.top_p = 0.07f}), ElementsAre(0, 1, 2, 3));  // 3.5 of 50
  std::vector<float> mixed(50, 0.25f);
  mixed[40] = 0.3f;
  EXPECT_THAT(Drawer(mixed).Support({.top_k = 3}), ElementsAre(0, 1, 40));
}

TEST(Sampler, MinusZeroTiesWithZero) {
  EXPECT_THAT(Drawer({-0.0f, 0.0f, -1.0f}).Support({.top_k = 1}), ElementsAre(0));
  EXPECT_THAT(Drawer({-0.0f, 0.0f, 0.0f, -1.0f}).Support({.top_k = 2}), ElementsAre(0, 1));
}

TEST(Sampler, BrokenLogitsNeverWinAgainstSoundOnes) {
  const std::vector<float> logits = {kNan, 1.0f, -kInfinity, 2.0f, kNan};
  EXPECT_EQ(Drawer(logits).Draw(kGreedy), 3);
  EXPECT_EQ(Drawer(logits).Draw({.temperature = 0.0f, .logit_bias = {{1, 3.0f}}}), 1);
  EXPECT_THAT(Drawer(logits).Support({.temperature = 50.0f}), ElementsAre(1, 3));
  EXPECT_THAT(Drawer(logits).Support({.temperature = 50.0f, .top_k = 4, .top_p = 0.99f}), ElementsAre(1, 3));
}

TEST(Sampler, NothingButBrokenLogitsStillGivesATokenOfTheVocabulary) {
  for (const float broken : {kNan, -kInfinity, kInfinity}) {
    const std::vector<float> logits(100, broken);
    EXPECT_EQ(Drawer(logits).Draw(kGreedy), 0);
    for (const SamplingParams& params :
         {SamplingParams{}, SamplingParams{.top_k = 5}, SamplingParams{.top_p = 0.5f},
          SamplingParams{.min_p = 0.5f, .repetition_penalty = 1.5f},
          SamplingParams{.temperature = 1e-38f, .frequency_penalty = 1.0f}}) {
      const int32_t token = Drawer(logits, {1, 2, 3}, 1).Draw(params, 9);
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 100);
      EXPECT_EQ(token, Drawer(logits, {1, 2, 3}, 1).Draw(params, 9));
    }
  }
}

TEST(Sampler, MaskOfTheWholeVocabularyGivesTokenZero) {
  const SamplingParams params{.top_p = 0.5f, .stop_ids = {0, 1, 2}, .min_tokens = 1};
  EXPECT_EQ(Drawer({1.0f, 2.0f, 3.0f}).Draw(params), 0);
}

TEST(Sampler, HistoryOutsideTheVocabularyIsIgnored) {
  const SamplingParams params{.temperature = 0.0f, .repetition_penalty = 2.0f, .presence_penalty = 1.0f};
  EXPECT_EQ(Drawer({1.0f, 2.0f}, {-1, 2, 1 << 30, -2147483647 - 1}, 99).Draw(params), 1);
}

TEST(Sampler, ExtremeTemperaturesAreGreedyAndUniform) {
  EXPECT_THAT(Drawer({1.0f, 2.0f, 1.9f}).Support({.temperature = 1e-40f}), ElementsAre(1));
  EXPECT_THAT(Drawer({1.0f, 2.0f, 1.9f}).Support({.temperature = 3e38f}), ElementsAre(0, 1, 2));
}

TEST(Sampler, ReplayGivesTheSameDraws) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i) * 12.9898f) * 3.0f;
  Drawer one(logits, {5, 6, 7, 6}, 2);
  Drawer other(logits, {5, 6, 7, 6}, 2);
  const SamplingParams params{
      .temperature = 0.8f, .top_k = 200, .top_p = 0.9f, .frequency_penalty = 0.5f, .seed = 11};
  std::vector<int32_t> tokens;
  for (uint64_t position = 0; position < 300; ++position) tokens.push_back(one.Draw(params, position));
  // In another order, with other draws between: nothing but (seed, choice, position) counts.
  for (uint64_t position = 300; position-- > 0;) {
    other.Draw({.top_p = 0.3f, .repetition_penalty = 1.3f}, position);
    EXPECT_EQ(other.Draw(params, position), tokens[position]);
  }
}

TEST(Sampler, SeedChoiceAndPositionChangeTheDraw) {
  Drawer drawer(std::vector<float>(1024, 0.0f));
  int same_seed = 0, same_choice = 0, same_position = 0;
  for (uint64_t position = 0; position < 1000; ++position) {
    const int32_t token = drawer.Draw({.seed = 1}, position);
    same_seed += token == drawer.Draw({.seed = 2}, position);
    same_choice += token == drawer.Draw({.seed = 1, .choice = 1}, position);
    same_position += token == drawer.Draw({.seed = 1}, position + 1);
  }
  EXPECT_LT(same_seed, 10);  // about one is expected
  EXPECT_LT(same_choice, 10);
  EXPECT_LT(same_position, 10);
}

// Pearson's statistic of the draws against the softmax at the temperature.
double ChiSquare(const std::vector<float>& logits, const SamplingParams& params, int draws) {
  std::vector<double> expected(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) expected[i] = std::exp(logits[i] / params.temperature);
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  std::vector<int> seen(logits.size());
  Drawer drawer(logits);
  for (int i = 0; i < draws; ++i) ++seen[drawer.Draw(params, i)];
  double statistic = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double e = expected[i] / sum * draws;
    statistic += (seen[i] - e) * (seen[i] - e) / e;
  }
  return statistic;
}

TEST(Sampler, DrawsFollowTheDistribution) {
  std::vector<float> logits;
  for (int i = 0; i < 16; ++i) logits.push_back(static_cast<float>(i * 7 % 16) * 0.2f);
  // 15 degrees of freedom: 37.7 is exceeded once in a thousand seeds.
  for (const uint64_t seed : {1, 2, 3}) {
    for (const float temperature : {0.5f, 1.0f, 2.0f}) {
      EXPECT_LT(ChiSquare(logits, {.temperature = temperature, .seed = seed}, 20000), 37.7);
    }
  }
}

TEST(Sampler, LogprobsAreTheModelsOwnDistribution) {
  Drawer drawer({std::log(0.5f), std::log(0.25f), std::log(0.125f), std::log(0.125f)}, {0, 0}, 0);
  const SamplingParams params{.temperature = 0.0f,
                              .presence_penalty = 2.0f,
                              .n_logprobs = 3,
                              .logprobs = true,
                              .logit_bias = {{3, 50.0f}}};
  std::vector<TokenLogprob> top(3);
  const TokenLogprob chosen = drawer.DrawWithLogprobs(params, 0, top);
  EXPECT_EQ(chosen.token, 3);
  EXPECT_NEAR(chosen.logprob, std::log(0.125f), 1e-6);
  const std::vector<std::pair<int32_t, float>> expected = {{0, 0.5f}, {1, 0.25f}, {2, 0.125f}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(top[i].token, expected[i].first);
    EXPECT_NEAR(top[i].logprob, std::log(expected[i].second), 1e-6);
  }
}

TEST(Sampler, LogprobsOfAConstantRowAreMinusLogOfTheVocabulary) {
  for (const float level : {0.0f, 1e30f, -1e30f}) {
    Drawer drawer(std::vector<float>(1000, level));
    std::vector<TokenLogprob> top(5);
    EXPECT_NEAR(drawer.DrawWithLogprobs({.n_logprobs = 5}, 0, top).logprob, -std::log(1000.0),
                level == 0.0f ? 1e-6 : 10);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(top[i].token, i);
  }
}

TEST(Sampler, LogprobsOfBrokenRowsAreFiniteAndNotPositive) {
  Drawer drawer({kNan, 3.0f, -kInfinity, kInfinity});
  std::vector<TokenLogprob> top(4);
  drawer.DrawWithLogprobs({.temperature = 0.0f, .n_logprobs = 4}, 0, top);
  EXPECT_EQ(top[0].token, 3);
  EXPECT_EQ(top[1].token, 1);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_EQ(top[3].token, 2);
  for (const TokenLogprob& entry : top) {
    EXPECT_TRUE(std::isfinite(entry.logprob));
    EXPECT_LE(entry.logprob, 0.0f);
  }
}

TEST(Sampler, FillsNoMoreLogprobsThanThereIsRoomOrVocabulary) {
  std::vector<TokenLogprob> top(4, {-7, -7.0f});
  Drawer drawer({1.0f, 2.0f});
  drawer.DrawWithLogprobs({.n_logprobs = 4}, 0, top);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 0);
  EXPECT_EQ(top[2].token, -7);
  std::vector<TokenLogprob> small(1);
  drawer.DrawWithLogprobs({.n_logprobs = 4}, 0, small);
  EXPECT_EQ(small[0].token, 1);
}

TEST(Sampler, LeavesTheLogitsAlone) {
  Drawer drawer({1.0f, 2.0f, 3.0f}, {0, 1, 2}, 1);
  const std::vector<float> before = drawer.logits();
  drawer.Draw({.top_k = 2, .top_p = 0.9f, .repetition_penalty = 2.0f, .logit_bias = {{1, 4.0f}}});
  EXPECT_EQ(drawer.logits(), before);
}

}  // namespace
}  // namespace spillway
