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
};

}  // namespace spillway::cpu
