// Scalar reference operations in double: the oracle of every backend. Weights are float32 (exact from every
// format), everything else is double and is never rounded. Each sum runs in ascending order, so that results
// do not depend on how rows are divided among calls. Knows no stages, files or architectures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"

namespace spillway::ref {

// out[i] = x[i] * weight[i] / sqrt(mean(x^2) + eps). All (n); no weight: 1. In place allowed.
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization".
void RmsNorm(std::span<const double> x, std::span<const float> weight, double eps, std::span<double> out);

// out[r][o] = sum over i of weight[o][i] * x[r][i], i ascending.
// weight (n_out, n_in), x (rows, n_in), out (rows, n_out); row counts follow from the sizes. out must not
// alias x.
void MatMul(std::span<const float> weight, std::span<const double> x, uint64_t n_in, std::span<double> out);

// x[r][i] += bias[i]. x (rows, n), bias (n).
void AddBias(std::span<double> x, std::span<const float> bias);

// x[i] += y[i].
void Add(std::span<double> x, std::span<const double> y);

// x[i] *= factor.
void Scale(std::span<double> x, double factor);

// x[i] = cap * tanh(x[i] / cap).
void Softcap(std::span<double> x, double cap);

// Rotates pair i of one head by position * frequencies[i] and multiplies it by rope.magnitude: pairs are
// (2i, 2i+1) for kNorm, (i, i + n_rot/2) for kNeox; dimensions from n_rot = 2 * frequencies.size() on stay.
// x (head_dim). Source: Su et al., "RoFormer".
void Rope(std::span<double> x, const RopeSpec& rope, std::span<const float> frequencies, uint32_t position);

// Softmax in place, shifted by the maximum: x[i] = exp(x[i] - max) / sum. x not empty.
void Softmax(std::span<double> x);

// log of softmax: out[i] = x[i] - max - log(sum over j of exp(x[j] - max)). In place allowed.
void LogSoftmax(std::span<const double> x, std::span<double> out);

struct AttentionParams {
  double scale = 1.0;
  double softcap = 0.0;         // of the scaled scores; 0: none
  const float* sink = nullptr;  // one more logit, without a value
};

// One query head against n positions: out = sum over t of softmax_t(scale * q.k_t) * v_t.
// keys[t] points to as many values as q has, values[t] to as many as out. n >= 1.
void Attention(std::span<const double> q, std::span<const double* const> keys,
               std::span<const double* const> values, const AttentionParams& params, std::span<double> out);

// silu(x) = x / (1 + exp(-x)); gelu_tanh(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))); the gate of
// kSwigluClamped is min(x, 7) / (1 + exp(-1.702 min(x, 7))).
double Activate(Activation activation, double x);

// gate[i] = activation(gate[i]) * up[i]: SwiGLU for silu, GeGLU for gelu; kSwigluClamped takes clamp(up, -7,
// 7)
// + 1. Source: Shazeer, "GLU Variants".
void GatedActivation(Activation activation, std::span<double> gate, std::span<const double> up);

struct ExpertChoice {
  uint32_t expert = 0;
  double weight = 0.0;
};

// The experts of one row, best first, ties to the lowest index. logits, selection_bias (n_expert); the bias
// may be empty. Source: Shazeer et al., "Outrageously Large Neural Networks"; groups: DeepSeek-V3.
std::vector<ExpertChoice> ChooseExperts(const ExpertSpec& spec, std::span<const double> logits,
                                        std::span<const float> selection_bias);

}  // namespace spillway::ref
