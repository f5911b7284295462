#include "engine/ref/recurrent.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/ref/ops.h"

namespace spillway::ref {
namespace {

constexpr double kUnitEps = 1e-6;  // of the norms of q and k

std::vector<double> Product(const Weights& matrix, std::span<const double> x, uint64_t n_in) {
  std::vector<double> out(x.size() / n_in * (matrix.get().size() / n_in));
  MatMul(matrix.get(), x, n_in, out);
  return out;
}

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// alpha and beta of each value head of every row, (rows, n_head_v).
struct Gates {
  std::vector<double> alpha, beta;
};

Gates GatesOf(const RecurrentSpec& spec, const LayerWeights& w, std::span<const double> normed,
              uint64_t n_embd) {
  if (!w.ssm_beta_alpha.present())
    return {Product(w.ssm_alpha, normed, n_embd), Product(w.ssm_beta, normed, n_embd)};
  const std::vector<double> both = Product(w.ssm_beta_alpha, normed, n_embd);
  const uint32_t per_key = spec.n_head_v / spec.n_head_k;
  Gates gates;
  for (size_t i = 0; i < both.size(); ++i) {
    (i / per_key % 2 == 0 ? gates.beta : gates.alpha).push_back(both[i]);
  }
  return gates;
}

// u (Channels) becomes silu of the convolution of the last rows and itself; history (n_conv - 1, Channels).
void Convolve(const RecurrentSpec& spec, const Weights& taps, std::span<double> history,
              std::span<double> u) {
  const size_t channels = u.size();
  const size_t before = spec.n_conv - 1;
  const std::vector<double> current(u.begin(), u.end());
  for (size_t c = 0; c < channels; ++c) {
    const std::span<const float> tap = taps.get().subspan(c * spec.n_conv, spec.n_conv);
    double sum = 0.0;
    for (size_t i = 0; i < before; ++i) sum += tap[i] * history[i * channels + c];
    sum += tap[before] * u[c];
    u[c] = Activate(Activation::kSilu, sum);
  }
  std::copy(history.begin() + static_cast<ptrdiff_t>(channels), history.end(), history.begin());
  std::copy(current.begin(), current.end(), history.end() - static_cast<ptrdiff_t>(channels));
}

// To length 1.
void Unit(std::span<double> x) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  Scale(x, 1.0 / std::sqrt(squares + kUnitEps));
}

// One row of one value head: S (key_dim, value_dim) decays, learns v for k, and answers q.
void DeltaRule(std::span<double> s, std::span<const double> q, std::span<const double> k,
               std::span<const double> v, double decay, double beta, std::span<double> out) {
  const size_t n = v.size();
  std::vector<double> error(v.begin(), v.end());
  for (size_t i = 0; i < k.size(); ++i) {
    for (size_t j = 0; j < n; ++j) {
      s[i * n + j] *= decay;
      error[j] -= s[i * n + j] * k[i];
    }
  }
  std::fill(out.begin(), out.end(), 0.0);
  for (size_t i = 0; i < k.size(); ++i) {
    for (size_t j = 0; j < n; ++j) {
      s[i * n + j] += k[i] * (beta * error[j]);
      out[j] += s[i * n + j] * q[i];
    }
  }
}

}  // namespace

absl::StatusOr<RecurrentStates> RecurrentStates::Create(Ledger& ledger, std::span<const LayerSpec> layers,
                                                        uint32_t slots) {
  RecurrentStates states;
  for (const LayerSpec& layer : layers) {
    states.layer_offsets_.push_back(states.slot_size_);
    states.slot_size_ += layer.recurrent.State();
  }
  if (states.slot_size_ > 0) {
    SPILLWAY_ASSIGN_OR_RETURN(
        states.buffer_, ledger.Allocate(Purpose::kRecurrentState, states.slot_size_ * slots * sizeof(double),
                                        "recurrent state"));
  }
  return states;
}

double* RecurrentStates::At(uint32_t slot, uint32_t layer) {
  return reinterpret_cast<double*>(buffer_.data()) + slot * slot_size_ + layer_offsets_[layer];
}

void RecurrentStates::Copy(uint32_t source, uint32_t target) {
  std::copy_n(At(source, 0), slot_size_, At(target, 0));
}

std::vector<double> Recur(const LayerSpec& layer, const LayerWeights& weights, std::span<const double> normed,
                          std::span<double> state) {
  const RecurrentSpec& spec = layer.recurrent;
  const uint64_t n_embd = weights.attn_norm.get().size();
  std::vector<double> u = Product(weights.ssm_qkv, normed, n_embd);
  std::vector<double> gate = Product(weights.ssm_gate, normed, n_embd);
  const Gates gates = GatesOf(spec, weights, normed, n_embd);
  const std::span<double> history = state.first(spec.ConvState());
  const uint64_t s_size = uint64_t{spec.key_dim} * spec.value_dim;
  std::vector<double> out(gate.size());
  for (size_t r = 0; r < normed.size() / n_embd; ++r) {
    const std::span<double> row = std::span(u).subspan(r * spec.Channels(), spec.Channels());
    Convolve(spec, weights.ssm_conv, history, row);
    for (uint32_t h = 0; h < 2 * spec.n_head_k; ++h) Unit(row.subspan(h * spec.key_dim, spec.key_dim));
    Scale(row.first(spec.Keys()), 1.0 / std::sqrt(static_cast<double>(spec.key_dim)));
    for (uint32_t key_head = 0; key_head < spec.n_head_k; ++key_head) {
      for (uint32_t i = 0; i < spec.n_head_v / spec.n_head_k; ++i) {
        const uint32_t h = spec.ValueHead(key_head, i);
        const size_t at = r * spec.n_head_v + h;
        const double decay =
            std::exp(weights.ssm_a.get()[h] * Softplus(gates.alpha[at] + weights.ssm_dt.get()[h]));
        const std::span<double> o = std::span(out).subspan(at * spec.value_dim, spec.value_dim);
        DeltaRule(state.subspan(spec.ConvState() + h * s_size, s_size),
                  row.subspan(key_head * spec.key_dim, spec.key_dim),
                  row.subspan(spec.Keys() + key_head * spec.key_dim, spec.key_dim),
                  row.subspan(2 * spec.Keys() + h * spec.value_dim, spec.value_dim), decay,
                  Sigmoid(gates.beta[at]), o);
        RmsNorm(o, weights.ssm_norm.get(), layer.norm_eps, o);
      }
    }
  }
  // silu(gate) * out.
  GatedActivation(Activation::kSilu, gate, out);
  return gate;
}

}  // namespace spillway::ref
