#include "engine/cpu/router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace spillway::cpu {

// Reduction by ln 2 in two parts, Taylor to r^13 on |r| <= ln(2)/2.
double Exp(double x) {
  x = std::clamp(x, -700.0, 700.0);
  const double n = std::nearbyint(x * 1.44269504088896340736);
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0;
  for (int i = 13; i >= 1; --i) p = p * r / i + 1.0;
  return std::ldexp(p, static_cast<int>(n));
}

namespace {

void Softmax(double* x, uint32_t n) {
  const double largest = *std::max_element(x, x + n);
  double sum = 0.0;
  for (uint32_t i = 0; i < n; ++i) sum += x[i] = Exp(x[i] - largest);
  for (uint32_t i = 0; i < n; ++i) x[i] /= sum;
}

constexpr double kOut = -std::numeric_limits<double>::infinity();

uint32_t Best(const double* scores, uint32_t n) {
  return static_cast<uint32_t>(std::max_element(scores, scores + n) - scores);
}

// Scores outside the n_group_used groups whose two best sum highest become -infinity.
void KeepBestGroups(const ExpertSpec& spec, double* scores) {
  const uint32_t size = spec.n_expert / spec.n_group;
  std::array<double, kMaxExperts> sums;
  for (uint32_t g = 0; g < spec.n_group; ++g) {
    double first = kOut, second = kOut;
    for (uint32_t i = g * size; i < (g + 1) * size; ++i) {
      second = std::max(second, std::min(first, scores[i]));
      first = std::max(first, scores[i]);
    }
    sums[g] = size > 1 ? first + second : first;
  }
  std::array<bool, kMaxExperts> kept = {};
  for (uint32_t i = 0; i < spec.n_group_used; ++i) {
    const uint32_t g = Best(sums.data(), spec.n_group);
    kept[g] = true;
    sums[g] = kOut;
  }
  for (uint32_t g = 0; g < spec.n_group; ++g) {
    if (!kept[g]) std::fill(scores + g * size, scores + (g + 1) * size, kOut);
  }
}

}  // namespace

double Sigmoid(double x) { return 1.0 / (1.0 + Exp(-x)); }

void ChooseExperts(const ExpertSpec& spec, const float* logits, const float* selection_bias,
                   ExpertChoice* out) {
  const uint32_t n = spec.n_expert;
  std::array<double, kMaxExperts> weights, scores, chosen;
  std::copy_n(logits, n, weights.begin());
  if (spec.gating == ExpertGating::kSoftmax) Softmax(weights.data(), n);
  if (spec.gating == ExpertGating::kSigmoid)
    std::transform(&weights[0], &weights[0] + n, &weights[0], Sigmoid);
  for (uint32_t i = 0; i < n; ++i)
    scores[i] = weights[i] + (selection_bias == nullptr ? 0.0 : selection_bias[i]);
  if (spec.n_group > 1) KeepBestGroups(spec, scores.data());
  for (uint32_t i = 0; i < spec.n_used; ++i) {
    out[i].expert = Best(scores.data(), n);
    scores[out[i].expert] = kOut;
    chosen[i] = weights[out[i].expert];
  }
  if (spec.gating == ExpertGating::kSoftmaxOfChosen) Softmax(chosen.data(), spec.n_used);
  double sum = 0.0;
  for (uint32_t i = 0; i < spec.n_used; ++i) sum += chosen[i];
  const double factor = spec.scale / (spec.renormalize ? std::max(sum, 6.103515625e-5) : 1.0);
  for (uint32_t i = 0; i < spec.n_used; ++i) out[i].weight = static_cast<float>(chosen[i] * factor);
}

}  // namespace spillway::cpu
