#include "tests/golden/checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/base/status.h"
#include "engine/stage/local_pipeline.h"

namespace spillway::golden {
namespace {

// The bounds of the cases' READMEs.
constexpr double kUnrounded = 1e-3;  // |dlogprob|, no rounding
constexpr double kTinyHalf = 0.06;   // |dlogprob|, F16 models with rounded activations
constexpr double kTinyMargin = 0.8;  // top-1 must agree beyond it, quantized models
constexpr double kTinyMeanKl = 0.01;
constexpr double kRealMargin = 0.15;
constexpr double kRealMedian = 0.08;
constexpr double kRealPercentile99 = 0.5;
constexpr double kRealFloor = -6.0;  // entries below do not count for the percentiles

std::vector<Stage*> Pointers(const std::vector<std::unique_ptr<Stage>>& stages) {
  std::vector<Stage*> pointers;
  for (const auto& stage : stages) pointers.push_back(stage.get());
  return pointers;
}

StageOptions OptionsFor(size_t tokens, uint32_t chunk) {
  StageOptions options;
  options.n_ctx = static_cast<uint32_t>(tokens);
  options.kv_pages = PagesFor(options.n_ctx);
  options.max_sequences = 1;
  options.max_rows = chunk;
  return options;
}

size_t ArgMax(std::span<const double> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// The worst difference of a comparison; NaN counts as infinite.
struct Worst {
  double difference = 0;
  std::string where = "nowhere";

  void Add(double ours, double reference, const std::string& place) {
    double distance = std::abs(ours - reference);
    if (!std::isfinite(distance)) distance = std::numeric_limits<double>::infinity();
    if (distance > difference) *this = {distance, fmt::format("{}: {} against {}", place, ours, reference)};
  }
};

void CheckTinyLogits(const TinyCase& tiny, const TinyPrompt& prompt, Rounding rounding,
                     const std::vector<float>& logits) {
  const size_t n_vocab = tiny.n_vocab;
  ASSERT_EQ(logits.size(), prompt.ids.size() * n_vocab);
  const bool exact = rounding == Rounding::kNone;
  const bool half = tiny.type == "F16" || tiny.type == "F32" || tiny.type == "BF16";
  Worst worst;
  double kl_sum = 0;
  for (size_t position = 0; position < prompt.ids.size(); ++position) {
    const std::vector<double> ours = LogProbabilities(std::span(logits).subspan(position * n_vocab, n_vocab));
    const double margin = prompt.top1_margin[position];
    if (margin > (exact ? 2 * kUnrounded : half ? 2 * kTinyHalf : kTinyMargin)) {
      EXPECT_EQ(ArgMax(ours), static_cast<size_t>(prompt.top1[position])) << "position " << position;
    }
    if (position < prompt.first_position) continue;
    const size_t row = position - prompt.first_position;
    const std::vector<double> reference =
        LogProbabilities(std::span(prompt.logits).subspan(row * n_vocab, n_vocab));
    for (size_t token = 0; token < n_vocab; ++token) {
      worst.Add(ours[token], reference[token], fmt::format("position {}, token {}", position, token));
      kl_sum += std::exp(reference[token]) * (reference[token] - ours[token]);
    }
  }
  const double mean_kl = kl_sum / static_cast<double>(prompt.ids.size() - prompt.first_position);
  fmt::print("  {}/{} {}: worst |dlogprob| {:.2e}, mean KL {:.2e}\n", tiny.model, tiny.type, prompt.name,
             worst.difference, mean_kl);
  if (exact || half) {
    EXPECT_LE(worst.difference, exact ? kUnrounded : kTinyHalf) << worst.where;
  } else {
    EXPECT_TRUE(mean_kl < kTinyMeanKl) << "mean KL " << mean_kl << "; worst at " << worst.where;
  }
}

void CheckTinyGreedy(const TinyCase& tiny, const TinyPrompt& prompt, Rounding rounding,
                     const std::vector<int32_t>& greedy) {
  ASSERT_EQ(greedy.size(), prompt.greedy.size());
  const bool half = tiny.type == "F16";
  const double tolerance = rounding == Rounding::kNone ? 2 * kUnrounded : half ? 2 * kTinyHalf : kTinyMargin;
  for (size_t i = 0; i < greedy.size() && prompt.greedy_margin[i] > tolerance; ++i) {
    ASSERT_EQ(greedy[i], prompt.greedy[i]) << "generated token " << i;
  }
}

double Percentile(std::vector<double>& values, double fraction) {
  const auto index = static_cast<size_t>(fraction * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

// Gathers |dlogprob| over entries above kRealFloor, for the percentiles.
void CheckRealPrompt(const RealPrompt& prompt, const Backend& backend, std::span<Stage* const> stages,
                     uint32_t n_vocab, std::vector<double>* differences, Worst* worst) {
  SCOPED_TRACE(prompt.name);
  std::vector<int32_t> tokens = prompt.prompt_ids;
  tokens.insert(tokens.end(), prompt.generated_ids.begin(), prompt.generated_ids.end() - 1);
  const absl::StatusOr<std::vector<float>> logits = AllLogits(stages, tokens, backend.chunk);
  ASSERT_TRUE(logits.ok()) << MessageOf(logits.status());
  ASSERT_EQ(logits->size(), tokens.size() * n_vocab);
  const auto row = [&](size_t position) {
    return LogProbabilities(std::span(*logits).subspan(position * n_vocab, n_vocab));
  };

  double nll = 0;
  for (size_t i = 1; i < prompt.prompt_ids.size(); ++i) {
    nll -= row(i - 1)[static_cast<size_t>(prompt.prompt_ids[i])];
  }
  for (size_t step = 0; step < prompt.steps.size(); ++step) {
    const std::vector<double> ours = row(prompt.prompt_ids.size() - 1 + step);
    if (prompt.margins[step] > (backend.rounding == Rounding::kNone ? 2 * kUnrounded : kRealMargin)) {
      EXPECT_EQ(ArgMax(ours), static_cast<size_t>(prompt.generated_ids[step])) << "step " << step;
    }
    for (const TopEntry& entry : prompt.steps[step]) {
      const double logprob = ours[static_cast<size_t>(entry.token)];
      worst->Add(logprob, entry.logprob,
                 fmt::format("{}, step {}, token {}", prompt.name, step, entry.token));
      if (entry.logprob > kRealFloor) differences->push_back(std::abs(logprob - entry.logprob));
    }
  }
  if (backend.rounding == Rounding::kNone) {
    EXPECT_NEAR(nll, prompt.prompt_nll, kUnrounded * static_cast<double>(prompt.prompt_ids.size()));
  }
}

}  // namespace

bool MustLoad(const TinyCase& tiny) {
  static const std::set<std::string> kSupported = {"llama",    "llama-rope3",  "qwen2", "mixtral",
                                                   "qwen3moe", "gemma3",       "phi3",  "gpt-oss",
                                                   "glm4moe",  "deepseek2-v3", "qwen35"};
  return kSupported.contains(tiny.model);
}

std::vector<double> LogProbabilities(std::span<const float> logits) {
  std::vector<double> result(logits.begin(), logits.end());
  const double maximum = *std::max_element(result.begin(), result.end());
  double sum = 0;
  for (const double value : result) sum += std::exp(value - maximum);
  for (double& value : result) value -= maximum + std::log(sum);
  const bool finite =
      std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); });
  if (!finite) std::fill(result.begin(), result.end(), std::numeric_limits<double>::quiet_NaN());
  return result;
}

void CheckTinyModel(const TinyCase& tiny, const Backend& backend) {
  std::string error;
  const auto prompts = LoadTinyPrompts(tiny, &error);
  ASSERT_TRUE(prompts) << error;
  const absl::StatusOr<Model> model = LoadModel(tiny.path);
  const bool may_skip = !backend.must_work(tiny);
  if (may_skip && absl::IsUnimplemented(model.status())) GTEST_SKIP() << MessageOf(model.status());
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  ASSERT_EQ(model->config.n_vocab, tiny.n_vocab);
  for (const TinyPrompt& prompt : *prompts) {
    SCOPED_TRACE(prompt.name);
    const auto stages =
        backend.make_stages(*model, OptionsFor(prompt.ids.size() + prompt.greedy.size(), backend.chunk));
    if (may_skip && absl::IsUnimplemented(stages.status())) GTEST_SKIP() << MessageOf(stages.status());
    ASSERT_TRUE(stages.ok()) << MessageOf(stages.status());
    const std::vector<Stage*> pointers = Pointers(*stages);
    const auto logits = AllLogits(pointers, prompt.ids, backend.chunk);
    ASSERT_TRUE(logits.ok()) << MessageOf(logits.status());
    CheckTinyLogits(tiny, prompt, backend.rounding, *logits);
    const auto greedy =
        GreedyTokens(pointers, prompt.ids, static_cast<uint32_t>(prompt.greedy.size()), backend.chunk);
    ASSERT_TRUE(greedy.ok()) << MessageOf(greedy.status());
    CheckTinyGreedy(tiny, prompt, backend.rounding, *greedy);
  }
}

void CheckRealModel(const Backend& backend) {
  std::string why;
  if (!CasesFolder(&why)) GTEST_SKIP() << why;
  const auto path = RealModelPath(&why);
  if (!path) GTEST_SKIP() << why;
  const auto prompts = LoadRealPrompts(&why);
  ASSERT_TRUE(prompts) << why;
  const absl::StatusOr<Model> model = LoadModel(*path);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  size_t longest = 0;
  for (const RealPrompt& prompt : *prompts) {
    longest = std::max(longest, prompt.prompt_ids.size() + prompt.generated_ids.size());
  }
  const auto stages = backend.make_stages(*model, OptionsFor(longest, backend.chunk));
  ASSERT_TRUE(stages.ok()) << MessageOf(stages.status());
  std::vector<double> differences;
  Worst worst;
  for (const RealPrompt& prompt : *prompts) {
    CheckRealPrompt(prompt, backend, Pointers(*stages), model->config.n_vocab, &differences, &worst);
  }
  ASSERT_FALSE(differences.empty());
  for (const double difference : differences) ASSERT_TRUE(std::isfinite(difference)) << worst.where;
  const double median = Percentile(differences, 0.5);
  const double percentile99 = Percentile(differences, 0.99);
  fmt::print("  |dlogprob|: median {:.2e}, 99th percentile {:.2e}, worst {:.2e} ({})\n", median, percentile99,
             worst.difference, worst.where);
  if (backend.rounding == Rounding::kNone) {
    EXPECT_LE(worst.difference, kUnrounded) << worst.where;
  } else {
    EXPECT_LE(median, kRealMedian);
    EXPECT_LE(percentile99, kRealPercentile99);
  }
}

}  // namespace spillway::golden
