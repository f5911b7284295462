// Bodies of the vector kernels over a 16-lane type V (ScalarSimd, Avx2Simd, ...). Included once per ISA
// level; the order of every float operation here is the text of docs/numerics.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/cpu/kernels.h"

namespace spillway::cpu {

template <class V>
struct VectorBody {
  using F = typename V::F;

  // e^x for 16 lanes. Cody-Waite reduction by ln 2 in two parts, degree-6 polynomial in Horner form, scaled
  // by 2^n. Taylor's coefficients: on |r| <= ln(2)/2 the first term left out is r^7/5040 < 1.2e-7, about one
  // ulp.
  static F Exp(F x) {
    x = V::Min(V::Max(x, V::Set1(-87.0f)), V::Set1(88.0f));
    const F n = V::Round(V::Mul(x, V::Set1(1.44269504f)));
    F r = V::Fma(n, V::Set1(-0.693359375f), x);
    r = V::Fma(n, V::Set1(2.12194440e-4f), r);
    F p = V::Set1(1.38888889e-3f);
    p = V::Fma(p, r, V::Set1(8.33333333e-3f));
    p = V::Fma(p, r, V::Set1(4.16666667e-2f));
    p = V::Fma(p, r, V::Set1(1.66666667e-1f));
    p = V::Fma(p, r, V::Set1(0.5f));
    p = V::Fma(p, r, V::Set1(1.0f));
    p = V::Fma(p, r, V::Set1(1.0f));
    return V::Mul(p, V::Pow2(n));
  }

  static void RmsNorm(const float* x, const float* weight, float eps, uint32_t n, float* out) {
    const uint32_t padded = PadTo16(n);
    F squares = V::Zero();
    for (uint32_t i = 0; i < padded; i += 16) {
      const F v = V::Load(x + i);
      squares = V::Fma(v, v, squares);
    }
    const float scale = 1.0f / std::sqrt(V::Sum(squares) / static_cast<float>(n) + eps);
    const F scales = V::Set1(scale);
    for (uint32_t i = 0; i < padded; i += 16) {
      V::Store(out + i, V::Mul(V::Mul(V::Load(x + i), scales), V::Load(weight + i)));
    }
  }

  static void Quantize(const float* x, uint32_t n, int8_t* codes, ActivationBlock* blocks) {
    for (uint32_t i = 0; i < n; i += 32, ++blocks) {
      alignas(64) float rest[32];
      const F low = V::Load(x + i);
      const F high = V::Load(x + i + 16);
      const F low_magnitude = V::Abs(low);
      const F high_magnitude = V::Abs(high);
      const float largest = V::MaxOf(V::Max(low_magnitude, high_magnitude));
      blocks->column = V::FirstEqual(low_magnitude, high_magnitude, largest);
      blocks->outlier = x[i + static_cast<uint32_t>(blocks->column)];
      V::Store(rest, low);
      V::Store(rest + 16, high);
      rest[blocks->column] = 0.0f;
      const F rest_low = V::Load(rest);
      const F rest_high = V::Load(rest + 16);
      const float second = V::MaxOf(V::Max(V::Abs(rest_low), V::Abs(rest_high)));
      const float inverse = second > 0.0f ? 127.0f / second : 0.0f;
      V::StoreI8(codes + i, V::Mul(rest_low, V::Set1(inverse)));
      V::StoreI8(codes + i + 16, V::Mul(rest_high, V::Set1(inverse)));
      blocks->scale = second / 127.0f;
      blocks->sum_low = V::SumI8(codes + i);
      blocks->sum_high = V::SumI8(codes + i + 16);
      const float sum = static_cast<float>(blocks->sum_low + blocks->sum_high);
      blocks->total = blocks->scale * sum + blocks->outlier;
    }
  }

  // silu(g) * u with silu(g) = g / (1 + e^-g).
  static void SiluMul(const float* gate, const float* up, uint32_t n, float* out) {
    const F one = V::Set1(1.0f);
    for (uint32_t i = 0; i < n; i += 16) {
      const F g = V::Load(gate + i);
      const F silu = V::Div(g, V::Add(one, Exp(V::Sub(V::Zero(), g))));
      V::Store(out + i, V::Mul(silu, V::Load(up + i)));
    }
  }

  // gelu(g) * u, tanh form, as g * sigmoid(2 * sqrt(2/pi) * (g + 0.044715 g^3)).
  static void GeluMul(const float* gate, const float* up, uint32_t n, float* out) {
    const F one = V::Set1(1.0f);
    for (uint32_t i = 0; i < n; i += 16) {
      const F g = V::Load(gate + i);
      const F cube = V::Mul(V::Mul(g, g), V::Mul(g, V::Set1(0.044715f)));
      const F inner = V::Mul(V::Set1(1.59576912f), V::Add(g, cube));
      const F gelu = V::Div(g, V::Add(one, Exp(V::Sub(V::Zero(), inner))));
      V::Store(out + i, V::Mul(gelu, V::Load(up + i)));
    }
  }

  // min(g, 7) * sigmoid(1.702 min(g, 7)) * (clamp(u, -7, 7) + 1).
  static void SwigluClampedMul(const float* gate, const float* up, uint32_t n, float* out) {
    const F one = V::Set1(1.0f), limit = V::Set1(7.0f), floor = V::Set1(-7.0f);
    for (uint32_t i = 0; i < n; i += 16) {
      const F g = V::Min(V::Load(gate + i), limit);
      const F u = V::Max(V::Min(V::Load(up + i), limit), floor);
      const F swish = V::Div(g, V::Add(one, Exp(V::Mul(V::Set1(-1.702f), g))));
      V::Store(out + i, V::Mul(swish, V::Add(u, one)));
    }
  }

  // x * sigmoid(g).
  static void SigmoidMul(const float* gate, const float* x, uint32_t n, float* out) {
    const F one = V::Set1(1.0f);
    for (uint32_t i = 0; i < n; i += 16) {
      const F grown = V::Add(one, Exp(V::Sub(V::Zero(), V::Load(gate + i))));
      V::Store(out + i, V::Div(V::Load(x + i), grown));
    }
  }

  // cap * tanh(x / cap), with tanh(y) = 1 - 2 / (e^2y + 1).
  static F Softcapped(F x, float cap) {
    const F one = V::Set1(1.0f), two = V::Set1(2.0f);
    const F grown = Exp(V::Mul(two, V::Div(x, V::Set1(cap))));
    return V::Mul(V::Set1(cap), V::Sub(one, V::Div(two, V::Add(grown, one))));
  }

  static void Softcap(float* x, uint32_t n, float cap) {
    for (uint32_t i = 0; i < n; i += 16) V::Store(x + i, Softcapped(V::Load(x + i), cap));
  }

  static void StoreKv(const float* k, const float* v, uint32_t head_dim, uint32_t slot, uint16_t* k_page,
                      uint16_t* v_page) {
    const uint32_t padded = PadTo16(head_dim);
    alignas(64) uint16_t halves[16];
    for (uint32_t d = 0; d < head_dim; d += 16) {
      const uint32_t count = std::min(16u, head_dim - d);
      alignas(64) float part[16] = {};
      std::copy_n(k + d, count, part);
      V::StoreF16(halves, V::Load(part));
      for (uint32_t i = 0; i < count; ++i) k_page[(d + i) * kPageTokens + slot] = halves[i];
      if (v == nullptr) continue;
      std::copy_n(v + d, count, part);
      V::StoreF16(v_page + uint64_t{slot} * padded + d, V::Load(part));
    }
  }

  // One row, G query heads of one key/value head: each cached key and value is converted once for all G.
  template <int G>
  static void AttendHeads(const AttendArgs& args) {
    const uint32_t padded_tokens = PagesFor(args.n_tokens) * kPageTokens;
    Scores<G>(args, padded_tokens);
    float sinks[G];
    for (int h = 0; h < G; ++h) sinks[h] = Softmax(args, h, padded_tokens);
    float inverse[G];
    Inverses<G>(args, padded_tokens, sinks, inverse);
    if (args.v_pages == nullptr) return WeightedLatents<G>(args, padded_tokens, inverse);
    WeightedValues<G>(args, padded_tokens, inverse);
  }

  // scores[h, t] = scale * sum_d q[h, d] k[d, t], d ascending in one chain; lanes are positions.
  template <int G>
  static void Scores(const AttendArgs& args, uint32_t padded_tokens) {
    const F scale = V::Set1(args.scale);
    for (uint32_t t = FirstPageToken(args); t < padded_tokens; t += 16) {
      const uint16_t* k = args.k_pages + args.pages[t / kPageTokens] * args.page_stride + t % kPageTokens;
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      for (uint32_t d = 0; d < args.head_dim; ++d) {
        const F key = V::LoadF16(k + d * kPageTokens);
        for (int h = 0; h < G; ++h) sum[h] = V::Fma(V::Set1(args.q[h * args.q_stride + d]), key, sum[h]);
      }
      for (int h = 0; h < G; ++h) {
        const F score = V::Mul(sum[h], scale);
        V::Store(args.scores + h * padded_tokens + t,
                 args.softcap == 0.0f ? score : Softcapped(score, args.softcap));
      }
    }
  }

  // Pages before the window are not read.
  static uint32_t FirstPageToken(const AttendArgs& args) {
    return args.first_token / kPageTokens * kPageTokens;
  }

  // In place: e^(s - max); positions outside [first_token, n_tokens) count as zero. The division comes at the
  // end of the weighted sum, so the weights stay unnormalised. Returns what the sink adds to their sum.
  static float Softmax(const AttendArgs& args, int h, uint32_t padded_tokens) {
    float* scores = args.scores + uint64_t{static_cast<uint32_t>(h)} * padded_tokens;
    const uint32_t begin = FirstPageToken(args);
    const auto outside = [&](float value) {
      for (uint32_t t = begin; t < args.first_token; ++t) scores[t] = value;
      for (uint32_t t = args.n_tokens; t < padded_tokens; ++t) scores[t] = value;
    };
    outside(-3.0e38f);
    F largest = V::Load(scores + begin);
    for (uint32_t t = begin + 16; t < padded_tokens; t += 16) largest = V::Max(largest, V::Load(scores + t));
    if (args.sinks != nullptr) largest = V::Max(largest, V::Set1(args.sinks[h]));
    const F shift = V::Set1(V::MaxOf(largest));
    for (uint32_t t = begin; t < padded_tokens; t += 16)
      V::Store(scores + t, Exp(V::Sub(V::Load(scores + t), shift)));
    outside(0.0f);
    if (args.sinks == nullptr) return 0.0f;
    alignas(64) float sink[16];
    V::Store(sink, Exp(V::Sub(V::Set1(args.sinks[h]), shift)));
    return sink[0];
  }

  // inverse[h] = 1 / (sum_t p[h, t] + sink).
  template <int G>
  static void Inverses(const AttendArgs& args, uint32_t padded_tokens, const float* sinks, float* inverse) {
    for (int h = 0; h < G; ++h) {
      F total = V::Zero();
      const float* scores = args.scores + uint64_t{static_cast<uint32_t>(h)} * padded_tokens;
      for (uint32_t t = FirstPageToken(args); t < padded_tokens; t += 16)
        total = V::Add(total, V::Load(scores + t));
      inverse[h] = 1.0f / (V::Sum(total) + sinks[h]);
    }
  }

  // out[h, d] = (sum_t p[h, t] k[d, t]) * inverse[h]; lanes are positions, added up at the end.
  template <int G>
  static void WeightedLatents(const AttendArgs& args, uint32_t padded_tokens, const float* inverse) {
    for (uint32_t d = 0; d < args.value_dim; ++d) {
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      for (uint32_t t = FirstPageToken(args); t < args.n_tokens; t += 16) {
        const uint16_t* k = args.k_pages + args.pages[t / kPageTokens] * args.page_stride +
                            uint64_t{d} * kPageTokens + t % kPageTokens;
        alignas(64) uint16_t tail[16] = {};
        if (args.n_tokens - t < 16) {  // what stands behind the last position was never written
          std::copy_n(k, args.n_tokens - t, tail);
          k = tail;
        }
        const F value = V::LoadF16(k);
        for (int h = 0; h < G; ++h)
          sum[h] = V::Fma(V::Load(args.scores + h * padded_tokens + t), value, sum[h]);
      }
      for (int h = 0; h < G; ++h) args.out[h * args.out_stride + d] = V::Sum(sum[h]) * inverse[h];
    }
  }

  // out[h, d] = (sum_t p[h, t] v[t, d]) * inverse[h], t ascending in one chain; lanes are dimensions.
  template <int G>
  static void WeightedValues(const AttendArgs& args, uint32_t padded_tokens, const float* inverse) {
    const uint32_t padded_dim = PadTo16(args.head_dim);
    for (uint32_t d = 0; d < args.head_dim; d += 16) {
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      for (uint32_t page = args.first_token / kPageTokens; page * kPageTokens < args.n_tokens; ++page) {
        const uint16_t* v = args.v_pages + args.pages[page] * args.page_stride + d;
        const uint32_t begin = page * kPageTokens;
        const uint32_t end = std::min(begin + kPageTokens, args.n_tokens);
        for (uint32_t t = begin; t < end; ++t, v += padded_dim) {
          const F value = V::LoadF16(v);
          for (int h = 0; h < G; ++h)
            sum[h] = V::Fma(V::Set1(args.scores[h * padded_tokens + t]), value, sum[h]);
        }
      }
      for (int h = 0; h < G; ++h) {
        alignas(64) float part[16];
        V::Store(part, V::Mul(sum[h], V::Set1(inverse[h])));
        std::copy_n(part, std::min(16u, args.head_dim - d), args.out + h * args.out_stride + d);
      }
    }
  }

  static void Attend(const AttendArgs& args) {
    switch (args.heads) {
      case 1:
        return AttendHeads<1>(args);
      case 2:
        return AttendHeads<2>(args);
      case 3:
        return AttendHeads<3>(args);
      default:
        return AttendHeads<4>(args);
    }
  }
};

}  // namespace spillway::cpu
