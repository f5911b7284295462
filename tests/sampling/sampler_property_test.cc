// Goal: over a vocabulary of 100 000 and random parameters the sampler draws what the naive sampler draws.
// Draws that the naive one calls a near tie (within 1e-7 of probability) are left out, and their number is
// bounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/sampling/drawer.h"
#include "tests/sampling/naive_sampler.h"

namespace spillway {
namespace {

using Random = std::mt19937_64;

float Uniform(Random& random, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random);
}

bool OneIn(Random& random, int n) { return random() % n == 0; }

SamplingParams RandomParams(Random& random, int32_t n_vocab) {
  SamplingParams p;
  p.logprobs = true;
  p.seed = random();
  p.choice = static_cast<uint32_t>(random());
  p.temperature = OneIn(random, 6) ? 0.0f : OneIn(random, 2) ? 1.0f : Uniform(random, 0.1f, 2.0f);
  if (OneIn(random, 2)) p.top_k = 1 + random() % (OneIn(random, 2) ? 100 : 2 * n_vocab);
  if (OneIn(random, 2)) p.top_p = Uniform(random, 0.01f, 0.999f);
  if (OneIn(random, 3)) p.min_p = Uniform(random, 0.0001f, 0.5f);
  if (OneIn(random, 3)) p.repetition_penalty = Uniform(random, 0.5f, 2.0f);
  if (OneIn(random, 3)) p.presence_penalty = Uniform(random, -2.0f, 2.0f);
  if (OneIn(random, 3)) p.frequency_penalty = Uniform(random, -2.0f, 2.0f);
  if (OneIn(random, 3)) {
    for (int i = 0; i < 50; ++i) {
      p.logit_bias.emplace_back(static_cast<int32_t>(random() % n_vocab), Uniform(random, -10.0f, 10.0f));
    }
  }
  if (n_vocab > 1 && OneIn(random, 3)) {
    p.min_tokens = random() % 100;
    // Never token 0: the naive sampler does not know what to draw when everything is masked.
    for (int i = 0; i < 5; ++i) p.stop_ids.push_back(static_cast<int32_t>(1 + random() % (n_vocab - 1)));
  }
  return p;
}

// Flat, peaked, or rounded to few values so that ties abound.
std::vector<float> RandomLogits(Random& random, int32_t n_vocab) {
  std::vector<float> logits(n_vocab);
  const float spread = Uniform(random, 0.5f, 6.0f);
  const bool coarse = OneIn(random, 3);
  std::normal_distribution<float> normal(-2.0f, spread);
  for (float& logit : logits) {
    logit = normal(random);
    if (coarse) logit = std::round(logit * 2.0f) / 2.0f;
  }
  return logits;
}

void CompareWithNaive(Random& random, int32_t n_vocab, int rounds, int draws) {
  int near_ties = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<int32_t> history(random() % 200);
    for (int32_t& token : history) token = static_cast<int32_t>(random() % std::min(n_vocab, 150));
    const auto prompt = static_cast<uint32_t>(random() % (history.size() + 1));
    Drawer drawer(RandomLogits(random, n_vocab), history, prompt);
    const SamplingParams params = RandomParams(random, n_vocab);
    for (int i = 0; i < draws; ++i) {
      const uint64_t position = history.size() + i;
      const NaiveDraw expected = DrawNaively({drawer.logits(), history, prompt, position}, params);
      const TokenLogprob drawn = drawer.DrawWithLogprobs(params, position, {});
      if (expected.margin < 1e-7) {
        ++near_ties;
        continue;
      }
      ASSERT_EQ(drawn.token, expected.token)
          << "round " << round << " margin " << expected.margin << " temperature " << params.temperature
          << " top_k " << params.top_k << " top_p " << params.top_p << " min_p " << params.min_p;
      ASSERT_NEAR(drawn.logprob, expected.logprob, 1e-5);
    }
  }
  EXPECT_LE(near_ties, rounds * draws / 10);
}

TEST(SamplerProperty, MatchesTheNaiveSamplerOverALargeVocabulary) {
  Random random(20240601);
  CompareWithNaive(random, 100000, 40, 2);
}

TEST(SamplerProperty, MatchesTheNaiveSamplerOverSmallVocabularies) {
  Random random(20240602);
  for (const int32_t n_vocab : {1, 2, 3, 15, 16, 17, 31, 64, 257, 1000})
    CompareWithNaive(random, n_vocab, 60, 4);
}

TEST(SamplerProperty, TopLogprobsAreASortedPrefix) {
  Random random(3);
  for (const int32_t n_vocab : {1, 5, 20, 21, 100000}) {
    Drawer drawer(RandomLogits(random, n_vocab));
    std::vector<int32_t> order(n_vocab);
    for (int32_t i = 0; i < n_vocab; ++i) order[i] = i;
    const auto& logits = drawer.logits();
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    std::vector<TokenLogprob> top(kMaxTopLogprobs);
    drawer.DrawWithLogprobs({.n_logprobs = kMaxTopLogprobs}, 0, top);
    for (int32_t i = 0; i < std::min<int32_t>(n_vocab, kMaxTopLogprobs); ++i)
      ASSERT_EQ(top[i].token, order[i]);
  }
}

}  // namespace
}  // namespace spillway
