// Bodies of the recurrent layers' kernels (Gated DeltaNet) over a 16-lane type V. Lanes are channels of the
// convolution or columns of S, so every sum is one chain in one order (docs/numerics.md).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "engine/cpu/kernels.h"
#include "engine/cpu/vector_body.h"

namespace spillway::cpu {

template <class V>
struct RecurrentBody {
  using F = typename V::F;

  static void Convolve(const ConvolveArgs& args) {
    const F one = V::Set1(1.0f);
    const uint32_t before = args.n_conv - 1;
    for (uint32_t c = 0; c < args.channels; c += 16) {
      F taps[kMaxConvTaps], history[kMaxConvTaps];
      for (uint32_t i = 0; i <= before; ++i) taps[i] = V::Load(args.taps + i * args.tap_stride + c);
      for (uint32_t i = 0; i < before; ++i) {
        history[i] = args.before == nullptr ? V::Zero() : V::Load(args.before + i * args.state_stride + c);
      }
      float* u = args.u + c;
      for (uint32_t row = 0; row < args.rows; ++row, u += args.stride) {
        history[before] = V::Load(u);
        F sum = V::Zero();
        for (uint32_t i = 0; i <= before; ++i) sum = V::Fma(taps[i], history[i], sum);
        V::Store(u, V::Div(sum, V::Add(one, VectorBody<V>::Exp(V::Sub(V::Zero(), sum)))));
        for (uint32_t i = 0; i < before; ++i) history[i] = history[i + 1];
      }
      for (uint32_t i = 0; i < before; ++i) V::Store(args.after + i * args.state_stride + c, history[i]);
    }
  }

  static void Unit(float* x, uint32_t n, float scale) {
    F squares = V::Zero();
    for (uint32_t i = 0; i < n; i += 16) {
      const F v = V::Load(x + i);
      squares = V::Fma(v, v, squares);
    }
    const F factor = V::Set1(scale / std::sqrt(V::Sum(squares) + 1e-6f));
    for (uint32_t i = 0; i < n; i += 16) V::Store(x + i, V::Mul(V::Load(x + i), factor));
  }

  // 16 * B columns of S, all rows: that part of S stays in the first cache.
  template <int B>
  static void DeltaColumns(const DeltaArgs& args, uint32_t column) {
    const uint32_t n = args.value_dim;
    for (uint32_t row = 0; row < args.rows; ++row) {
      const uint64_t at = row * args.stride;
      const float* q = args.q + at;
      const float* k = args.k + at;
      const float* from = (row == 0 ? args.before : args.after);
      const F decay = V::Set1(args.decay[at]);
      const F beta = V::Set1(args.beta[at]);
      F sum[B];
      for (int b = 0; b < B; ++b) sum[b] = V::Zero();
      for (uint32_t i = 0; i < args.key_dim; ++i) {
        const F key = V::Set1(k[i]);
        const uint64_t offset = uint64_t{i} * n + column;
        for (int b = 0; b < B; ++b) {
          const F s = from == nullptr ? V::Zero() : V::Mul(decay, V::Load(from + offset + 16 * b));
          V::Store(args.after + offset + 16 * b, s);
          sum[b] = V::Fma(key, s, sum[b]);
        }
      }
      F error[B];
      for (int b = 0; b < B; ++b) {
        error[b] = V::Mul(beta, V::Sub(V::Load(args.v + at + column + 16 * b), sum[b]));
        sum[b] = V::Zero();
      }
      for (uint32_t i = 0; i < args.key_dim; ++i) {
        const F key = V::Set1(k[i]), query = V::Set1(q[i]);
        float* s_row = args.after + uint64_t{i} * n + column;
        for (int b = 0; b < B; ++b) {
          const F s = V::Fma(key, error[b], V::Load(s_row + 16 * b));
          V::Store(s_row + 16 * b, s);
          sum[b] = V::Fma(query, s, sum[b]);
        }
      }
      for (int b = 0; b < B; ++b) V::Store(args.out + row * args.out_stride + column + 16 * b, sum[b]);
    }
  }

  static void DeltaRule(const DeltaArgs& args) {
    uint32_t column = 0;
    for (; column + 64 <= args.value_dim; column += 64) DeltaColumns<4>(args, column);
    for (; column < args.value_dim; column += 16) DeltaColumns<1>(args, column);
  }
};

}  // namespace spillway::cpu
