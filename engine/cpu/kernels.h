// The host backend's kernels: one table of functions per ISA level, all bit-identical (docs/numerics.md).
// Each level is one translation unit compiled from the same bodies over its own 16-lane vector type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/cpu/host_stage.h"
#include "engine/cpu/pack.h"

namespace spillway::cpu {

// Per 32 activations: x ~ scale * code, but for the largest one, which is kept exactly: its code is 0. On
// SmolLM2 that one exact value cuts the median log-probability error from 0.069 to 0.025 (two more bits for
// all would give 0.017).
struct ActivationBlock {
  float scale;       // (second largest magnitude) / 127
  float total;       // scale * (sum of codes) + outlier: the block's sum, which minimums multiply
  int32_t sum_low;   // codes 0..15
  int32_t sum_high;  // codes 16..31
  float outlier;     // x[column]
  int32_t column;    // 0..31, the first of the largest magnitude
};

// Rows of activations quantized to int8; n_in is a multiple of 32.
struct QuantizedRows {
  int8_t* codes = nullptr;            // (rows, code_stride)
  ActivationBlock* blocks = nullptr;  // (rows, code_stride / 32)
  uint64_t code_stride = 0;
};

// y[r, o] (+)= sum_i w[o, i] x[r, i] (+ bias[o]); strides in floats, padded to 16; groups of w in [begin,
// end).
struct MatmulArgs {
  const PackedMatrix* w = nullptr;
  const float* x = nullptr;  // (rows, x_stride), for float weights
  uint64_t x_stride = 0;
  const QuantizedRows* quantized = nullptr;  // for quantized weights
  uint32_t rows = 0;
  float* y = nullptr;  // (rows, y_stride)
  uint64_t y_stride = 0;
  const float* bias = nullptr;  // (n_out padded to 16) or nullptr
  bool accumulate = false;      // add to y (the residual)
};

// Attention of one row over positions [first_token, n_tokens) for `heads` query heads that share a key/value
// head.
struct AttendArgs {
  const float* q = nullptr;  // (heads, q_stride), of which head_dim count; rotated
  uint32_t q_stride = 0;
  uint32_t heads = 0;     // 1..4
  uint32_t head_dim = 0;  // of q and keys
  uint32_t first_token = 0;
  uint32_t n_tokens = 0;
  const uint32_t* pages = nullptr;  // page index of each 32 positions
  CacheType k_type = CacheType::kF16;
  CacheType v_type = CacheType::kF16;
  const std::byte* k_pages = nullptr;  // + page * page_stride: the head's keys
  // + page * page_stride: the head's values. nullptr: values are the first value_dim dimensions of the keys
  // (latent attention); otherwise value_dim is head_dim.
  const std::byte* v_pages = nullptr;
  uint32_t value_dim = 0;
  uint64_t page_stride = 0;  // in bytes
  float scale = 1.0f;
  float softcap = 0.0f;          // of the scaled scores; 0: none
  const float* sinks = nullptr;  // (heads): one more logit each, without a value; or nullptr
  float* scores = nullptr;       // scratch (heads, n_tokens padded to 32)
  float* out = nullptr;          // (heads, out_stride), of which value_dim count
  uint32_t out_stride = 0;
};

// Channels of a causal convolution and its SiLU, in place, of rows that follow one another. The state is the
// last n_conv - 1 rows before the convolution.
inline constexpr uint32_t kMaxConvTaps = 8;
struct ConvolveArgs {
  float* u = nullptr;  // (rows, stride), of which `channels` count: a multiple of 16
  uint64_t stride = 0;
  uint32_t rows = 0;
  uint32_t channels = 0;
  uint32_t n_conv = 0;          // taps, the last is the row's own
  const float* taps = nullptr;  // (n_conv, tap_stride)
  uint64_t tap_stride = 0;
  const float* before = nullptr;  // (n_conv - 1, state_stride), or nullptr: zeros
  float* after = nullptr;         // the same, after the last row
  uint64_t state_stride = 0;
};

// The gated delta rule of one head, rows one after another: S = decay S; S += k (beta (v - S^T k))^T; out =
// S^T q.
struct DeltaArgs {
  const float *q = nullptr, *k = nullptr;  // (rows, stride), of which key_dim count
  const float* v = nullptr;                // (rows, stride), of which value_dim count: a multiple of 16
  const float *decay = nullptr, *beta = nullptr;  // (rows, stride), of which one counts
  uint64_t stride = 0;
  uint32_t rows = 0;
  uint32_t key_dim = 0, value_dim = 0;
  const float* before = nullptr;  // S (key_dim, value_dim), or nullptr: zeros
  float* after = nullptr;         // the same, after the last row
  float* out = nullptr;           // (rows, out_stride), of which value_dim count
  uint64_t out_stride = 0;
};

struct Kernels {
  Isa isa;
  // out[i] = x[i] * (1 / sqrt(mean(x^2) + eps)) * weight[i]; n real elements, buffers padded with zeros
  // to 16.
  void (*rms_norm)(const float* x, const float* weight, float eps, uint32_t n, float* out);
  // Row of n (multiple of 32) floats to int8 blocks.
  void (*quantize)(const float* x, uint32_t n, int8_t* codes, ActivationBlock* blocks);
  // out[i] = silu(gate[i]) * up[i] (or gelu_tanh); n padded to 16.
  void (*silu_mul)(const float* gate, const float* up, uint32_t n, float* out);
  void (*gelu_mul)(const float* gate, const float* up, uint32_t n, float* out);
  void (*swiglu_clamped_mul)(const float* gate, const float* up, uint32_t n, float* out);
  // x[i] = cap * tanh(x[i] / cap), n padded to 16.
  void (*softcap)(float* x, uint32_t n, float cap);
  void (*attend)(const AttendArgs& args);
  // Writes one position's key (dim) into column `slot`, its value (dim) into row `slot` of a head's part of a
  // page.
  void (*store_key)(CacheType type, const float* k, uint32_t dim, uint32_t slot, std::byte* page);
  void (*store_value)(CacheType type, const float* v, uint32_t dim, uint32_t slot, std::byte* page);
  // out[i] = x[i] * sigmoid(gate[i]); n padded to 16.
  void (*sigmoid_mul)(const float* gate, const float* x, uint32_t n, float* out);
  void (*convolve)(const ConvolveArgs& args);
  // x[i] *= scale / sqrt(sum of squares + 1e-6), n a multiple of 16.
  void (*unit)(float* x, uint32_t n, float scale);
  void (*delta_rule)(const DeltaArgs& args);
  std::array<void (*)(const MatmulArgs& args, uint32_t group_begin, uint32_t group_end), kPackings> matmul;
};

const Kernels& ScalarKernels();
const Kernels& Avx2Kernels();  // call only where the machine has AVX2, FMA and F16C
const Kernels& KernelsFor(Isa isa);
bool MachineHas(Isa isa);

// cos and sin of position * frequency for n frequencies, computed in double (own reduction and polynomial).
void RopeAngles(uint32_t position, const float* frequencies, uint32_t n, float* cos_out, float* sin_out);

constexpr uint32_t PadTo16(uint32_t n) { return (n + 15) / 16 * 16; }
constexpr uint32_t PadTo32(uint32_t n) { return (n + 31) / 32 * 32; }

// Bytes of one head's keys or values in a page. f16: keys (dim, 32), values (32, dim padded to 16). q8_0:
// int8 codes in the same order, then f16 scales of blocks of 32 dimensions, (blocks, 32) of both.
constexpr uint64_t KeyPageBytes(CacheType type, uint32_t dim) {
  if (type == CacheType::kF16) return uint64_t{dim} * kPageTokens * 2;
  return uint64_t{kPageTokens} * (dim + PadTo32(dim) / 32 * 2);
}
constexpr uint64_t ValuePageBytes(CacheType type, uint32_t dim) { return KeyPageBytes(type, PadTo16(dim)); }

}  // namespace spillway::cpu
