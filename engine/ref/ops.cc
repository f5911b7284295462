// Implementation of the reference operations. Plain loops; speed only from reading each weight once per block
// of rows.
#include "engine/ref/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/base/status.h"

namespace spillway::ref {
namespace {

// Rows that share one pass over the weights; accumulators of a block stay in registers.
constexpr uint64_t kBlockRows = 8;

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
  SPILLWAY_CHECK(x.size() == weight.size() && x.size() == out.size());
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
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

void Rope(std::span<double> x, RopeKind kind, std::span<const float> frequencies, uint32_t position) {
  if (kind == RopeKind::kNone) return;
  const size_t pairs = frequencies.size();
  SPILLWAY_CHECK(2 * pairs <= x.size());
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
    double& a = kind == RopeKind::kNorm ? x[2 * i] : x[i];
    double& b = kind == RopeKind::kNorm ? x[2 * i + 1] : x[i + pairs];
    const double rotated_a = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
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
               std::span<const double* const> values, double scale, std::span<double> out) {
  SPILLWAY_CHECK(!keys.empty() && keys.size() == values.size() && q.size() == out.size());
  std::vector<double> weights(keys.size());
  for (size_t t = 0; t < keys.size(); ++t) {
    double dot = 0.0;
    for (size_t i = 0; i < q.size(); ++i) dot += q[i] * keys[t][i];
    weights[t] = scale * dot;
  }
  Softmax(weights);
  std::fill(out.begin(), out.end(), 0.0);
  for (size_t t = 0; t < keys.size(); ++t) {
    for (size_t i = 0; i < out.size(); ++i) out[i] += weights[t] * values[t][i];
  }
}

double Activate(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
  constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1.0 + std::tanh(kRootTwoOverPi * (x + 0.044715 * x * x * x)));
}

void GatedActivation(Activation activation, std::span<double> gate, std::span<const double> up) {
  SPILLWAY_CHECK(gate.size() == up.size());
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = Activate(activation, gate[i]) * up[i];
}

}  // namespace spillway::ref
