// Recurrent layers (Gated DeltaNet) on the host. Rows of a sequence run one after another, whatever
// micro-batch they come in, so no chunking changes a bit; sequences and key heads run beside each other. A
// state is read from one slot and written to another (engine/stage/checkpoints.h), which costs no copy.
#include <algorithm>
#include <cmath>

#include "engine/cpu/host_stage_impl.h"
#include "engine/cpu/router.h"
#include "engine/sampling/exp_log.h"

namespace spillway::cpu {
namespace {

// log(1 + e^x), in double.
double Softplus(double x) { return std::max(x, 0.0) + sampling_internal::Log(1.0 + Exp(-std::abs(x))); }

}  // namespace

float* HostStage::State(uint32_t slot, uint32_t layer) {
  if (slot == kNoState) return nullptr;
  return Floats(kState) + slot * layout_.state_stride + layout_.state_offsets[layer];
}

// Row -> q k v, gate, alpha and beta in one region; then a task is one key head of one sequence -> kInput.
void HostStage::Recur(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index) {
  const auto& m = weights.matrices;
  const RecurrentColumns at(spec.recurrent);
  float* row = Floats(kQkv);
  const uint64_t stride = layout_.qkv_stride;
  bool quantize = false;
  for (const LayerSlot slot : {kSsmQkv, kSsmGate, kSsmAlpha, kSsmBeta, kSsmBetaAlpha}) {
    quantize = quantize || m[slot].Quantized();
  }
  NormInput(weights.vectors[kAttnNorm], spec.norm_eps, quantize);
  const Product products[] = {{&m[kSsmQkv], row, stride, nullptr, false},
                              {&m[kSsmGate], row + at.gate, stride, nullptr, false},
                              {&m[kSsmBeta], row + at.beta, stride, nullptr, false},
                              {&m[kSsmAlpha], row + at.alpha, stride, nullptr, false},
                              {&m[kSsmBetaAlpha], row + at.beta, stride, nullptr, false}};
  Multiply(products, static_cast<uint32_t>(rows_.size()));
  const uint32_t heads = spec.recurrent.n_head_k;
  pool_.ParallelFor(static_cast<int64_t>(runs_.size()) * heads, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const Run& run = runs_[static_cast<size_t>(task / heads)];
      RecurKeyHead(spec, weights, index, run, static_cast<uint32_t>(task % heads));
    }
  });
}

// Convolution, norms and gates of what the key head reads, S of its value heads, and what those give.
void HostStage::RecurKeyHead(const LayerSpec& layer, const HostLayerWeights& weights, uint32_t index,
                             const Run& run, uint32_t key_head) {
  const RecurrentSpec& spec = layer.recurrent;
  const RecurrentColumns at(spec);
  const uint64_t stride = layout_.qkv_stride;
  float* u = Floats(kQkv) + run.first_row * stride;
  const float* before = State(run.slots.source, index);
  float* after = State(run.slots.target, index);
  ConvolveArgs convolve;
  convolve.stride = stride;
  convolve.rows = run.rows;
  convolve.n_conv = spec.n_conv;
  convolve.tap_stride = convolve.state_stride = spec.Channels();
  const auto convolve_part = [&](uint32_t column, uint32_t channels) {
    convolve.u = u + column;
    convolve.taps = weights.vectors[kSsmConv] + column;
    convolve.before = before == nullptr ? nullptr : before + column;
    convolve.after = after + column;
    convolve.channels = channels;
    kernels_.convolve(convolve);
  };
  const uint32_t q = key_head * spec.key_dim;
  const uint32_t k = spec.Keys() + q;
  convolve_part(q, spec.key_dim);
  convolve_part(k, spec.key_dim);
  for (uint32_t r = 0; r < run.rows; ++r) {
    kernels_.unit(u + r * stride + q, spec.key_dim, 1.0f / std::sqrt(static_cast<float>(spec.key_dim)));
    kernels_.unit(u + r * stride + k, spec.key_dim, 1.0f);
  }

  DeltaArgs delta;
  delta.q = u + q;
  delta.k = u + k;
  delta.stride = stride;
  delta.out_stride = layout_.input_stride;
  delta.rows = run.rows;
  delta.key_dim = spec.key_dim;
  delta.value_dim = spec.value_dim;
  const uint32_t per_key = spec.n_head_v / spec.n_head_k;
  const bool joint = weights.matrices[kSsmBetaAlpha].n_out > 0;
  for (uint32_t i = 0; i < per_key; ++i) {
    const uint32_t head = spec.ValueHead(key_head, i);
    const uint32_t v = 2 * spec.Keys() + head * spec.value_dim;
    const uint32_t beta = at.beta + (joint ? key_head * 2 * per_key + i : head);
    const uint32_t alpha = joint ? beta + per_key : at.alpha + head;
    convolve_part(v, spec.value_dim);
    for (uint32_t r = 0; r < run.rows; ++r) {
      float* row = u + r * stride;
      const double step = Softplus(double{row[alpha]} + double{weights.vectors[kSsmDt][head]});
      row[alpha] = static_cast<float>(Exp(double{weights.vectors[kSsmA][head]} * step));
      row[beta] = static_cast<float>(Sigmoid(row[beta]));
    }
    const uint64_t s = spec.ConvState() + uint64_t{head} * spec.key_dim * spec.value_dim;
    delta.v = u + v;
    delta.decay = u + alpha;
    delta.beta = u + beta;
    delta.before = before == nullptr ? nullptr : before + s;
    delta.after = after + s;
    delta.out = Floats(kInput) + run.first_row * uint64_t{layout_.input_stride} + head * spec.value_dim;
    kernels_.delta_rule(delta);
    for (uint32_t r = 0; r < run.rows; ++r) {
      float* out = delta.out + r * uint64_t{layout_.input_stride};
      kernels_.rms_norm(out, weights.vectors[kSsmNorm], layer.norm_eps, spec.value_dim, out);
      kernels_.silu_mul(u + r * stride + at.gate + head * spec.value_dim, out, spec.value_dim, out);
    }
  }
}

}  // namespace spillway::cpu
