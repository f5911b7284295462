// Implementation of the reference operations. Plain loops; speed only from reading each weight once per block
// of rows.
#include "engine/ref/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace spillway::ref {
namespace {

// Rows that share one pass over the weights; accumulators of a block stay in registers.
constexpr uint64_t kBlockRows = 8;

// Of kSwigluClamped.
constexpr double kClamp = 7.0;

// x_block (n_in, kBlockRows), transposed so that the compiler vectorizes over rows and keeps each row's
// order.
void MatMulBlock(std::span<const float> weight, const std::vector<double>& x_block, uint64_t n_in,
                 uint64_t rows, double* out, uint64_t n_out) {
  for (uint64_t o = 0; o < n_out; ++o) {
    std::array<double, kBlockRows> sums = {};
    const float* w = weight.data() + o * n_in;
    const double* x = x_block.data();
    for (uint64_t i = 0; i < n_in; ++i, x += kBlockRows) {
      const double wi = w[i];
      for (uint64_t r = 0; r < kBlockRows; ++r) sums[r] += wi * x[r];
    }
    for (uint64_t r = 0; r < rows; ++r) out[r * n_out + o] = sums[r];
  }
}

}  // namespace

void RmsNorm(std::span<const double> x, std::span<const float> weight, double eps, std::span<double> out) {
  SPILLWAY_CHECK((weight.empty() || x.size() == weight.size()) && x.size() == out.size());
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * (weight.empty() ? 1.0f : weight[i]);
}

void MatMul(std::span<const float> weight, std::span<const double> x, uint64_t n_in, std::span<double> out) {
  SPILLWAY_CHECK(n_in > 0 && weight.size() % n_in == 0 && x.size() % n_in == 0);
  const uint64_t n_out = weight.size() / n_in;
  const uint64_t rows = x.size() / n_in;
  SPILLWAY_CHECK(out.size() == rows * n_out);
  std::vector<double> block(n_in * kBlockRows);
  for (uint64_t begin = 0; begin < rows; begin += kBlockRows) {
    const uint64_t count = std::min(kBlockRows, rows - begin);
    for (uint64_t r = 0; r < kBlockRows; ++r) {
      // Missing rows of the last block are computed on zeros and dropped.
      for (uint64_t i = 0; i < n_in; ++i)
        block[i * kBlockRows + r] = r < count ? x[(begin + r) * n_in + i] : 0.0;
    }
    MatMulBlock(weight, block, n_in, count, out.data() + begin * n_out, n_out);
  }
}

void AddBias(std::span<double> x, std::span<const float> bias) {
  SPILLWAY_CHECK(!bias.empty() && x.size() % bias.size() == 0);
  for (size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
}

void Add(std::span<double> x, std::span<const double> y) {
  SPILLWAY_CHECK(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void Scale(std::span<double> x, double factor) {
  for (double& value : x) value *= factor;
}

void Softcap(std::span<double> x, double cap) {
  for (double& value : x) value = cap * std::tanh(value / cap);
}

void Rope(std::span<double> x, const RopeSpec& rope, std::span<const float> frequencies, uint32_t position) {
  const RopeKind kind = rope.kind;
  if (kind == RopeKind::kNone) return;
  const size_t pairs = frequencies.size();
  SPILLWAY_CHECK(2 * pairs <= x.size());
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
    double& a = kind == RopeKind::kNorm ? x[2 * i] : x[i];
    double& b = kind == RopeKind::kNorm ? x[2 * i + 1] : x[i + pairs];
    const double cos = rope.magnitude * std::cos(angle);
    const double sin = rope.magnitude * std::sin(angle);
    const double rotated_a = a * cos - b * sin;
    b = a * sin + b * cos;
    a = rotated_a;
  }
}

void Softmax(std::span<double> x) {
  SPILLWAY_CHECK(!x.empty());
  const double maximum = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double& value : x) {
    value = std::exp(value - maximum);
    sum += value;
  }
  for (double& value : x) value /= sum;
}

void LogSoftmax(std::span<const double> x, std::span<double> out) {
  SPILLWAY_CHECK(!x.empty() && x.size() == out.size());
  const double maximum = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (const double value : x) sum += std::exp(value - maximum);
  const double shift = maximum + std::log(sum);
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] - shift;
}

void Attention(std::span<const double> q, std::span<const double* const> keys,
               std::span<const double* const> values, const AttentionParams& params, std::span<double> out) {
  SPILLWAY_CHECK(!keys.empty() && keys.size() == values.size());
  std::vector<double> weights(keys.size());
  for (size_t t = 0; t < keys.size(); ++t) {
    double dot = 0.0;
    for (size_t i = 0; i < q.size(); ++i) dot += q[i] * keys[t][i];
    weights[t] = params.scale * dot;
  }
  if (params.softcap != 0.0) Softcap(weights, params.softcap);
  if (params.sink != nullptr) weights.push_back(*params.sink);
  Softmax(weights);
  std::fill(out.begin(), out.end(), 0.0);
  for (size_t t = 0; t < keys.size(); ++t) {
    for (size_t i = 0; i < out.size(); ++i) out[i] += weights[t] * values[t][i];
  }
}

double Activate(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
  if (activation == Activation::kSwigluClamped) {
    const double gate = std::min(x, kClamp);
    return gate / (1.0 + std::exp(-1.702 * gate));
  }
  constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1.0 + std::tanh(kRootTwoOverPi * (x + 0.044715 * x * x * x)));
}

void GatedActivation(Activation activation, std::span<double> gate, std::span<const double> up) {
  SPILLWAY_CHECK(gate.size() == up.size());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double factor =
        activation == Activation::kSwigluClamped ? std::clamp(up[i], -kClamp, kClamp) + 1.0 : up[i];
    gate[i] = Activate(activation, gate[i]) * factor;
  }
}

namespace {

// Scores of experts outside the chosen groups become -infinity.
void KeepBestGroups(const ExpertSpec& spec, std::span<double> scores) {
  const size_t size = scores.size() / spec.n_group;
  std::vector<std::pair<double, size_t>> groups;
  for (size_t g = 0; g < spec.n_group; ++g) {
    std::vector<double> group(scores.begin() + static_cast<ptrdiff_t>(g * size),
                              scores.begin() + static_cast<ptrdiff_t>((g + 1) * size));
    std::sort(group.rbegin(), group.rend());
    groups.emplace_back(group[0] + (size > 1 ? group[1] : 0.0), g);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t rank = spec.n_group_used; rank < groups.size(); ++rank) {
    for (size_t i = 0; i < size; ++i) {
      scores[groups[rank].second * size + i] = -std::numeric_limits<double>::infinity();
    }
  }
}

}  // namespace

std::vector<ExpertChoice> ChooseExperts(const ExpertSpec& spec, std::span<const double> logits,
                                        std::span<const float> selection_bias) {
  SPILLWAY_CHECK(logits.size() == spec.n_expert && spec.n_used <= spec.n_expert);
  std::vector<double> weights(logits.begin(), logits.end());
  if (spec.gating == ExpertGating::kSoftmax) Softmax(weights);
  if (spec.gating == ExpertGating::kSigmoid) {
    for (double& value : weights) value = 1.0 / (1.0 + std::exp(-value));
  }
  std::vector<double> scores = weights;
  if (!selection_bias.empty()) AddBias(scores, selection_bias);
  if (spec.n_group > 1) KeepBestGroups(spec, scores);
  std::vector<uint32_t> order(spec.n_expert);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });

  std::vector<double> chosen;
  for (uint32_t i = 0; i < spec.n_used; ++i) chosen.push_back(weights[order[i]]);
  if (spec.gating == ExpertGating::kSoftmaxOfChosen) Softmax(chosen);
  if (spec.renormalize)
    Scale(chosen, 1.0 / std::max(6.103515625e-5, std::accumulate(chosen.begin(), chosen.end(), 0.0)));
  std::vector<ExpertChoice> result;
  for (uint32_t i = 0; i < spec.n_used; ++i) result.push_back({order[i], spec.scale * chosen[i]});
  return result;
}

}  // namespace spillway::ref
