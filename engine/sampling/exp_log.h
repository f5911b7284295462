// exp and log in double from additions, multiplications and bit operations only. The C library picks another
// rounding by CPU (its FMA variants), which would let a draw differ between two machines. Loops over Exp
// vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace spillway::sampling_internal {

using Double2 = double __attribute__((vector_size(16)));
using Uint2 = uint64_t __attribute__((vector_size(16)));

// e^x for x <= 0 in both lanes, relative error below 4e-16; arguments below -700 (and -infinity) count as
// -700. Not for NaN. x = k ln2 + r with |r| <= ln2 / 2, then the Taylor series of e^r to r^13 and the
// exponent k by shifting. Two lanes by hand: the compiler leaves the scalar loop alone, which made a draw
// from 49 k tokens four times slower.
inline Double2 Exp(Double2 x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits, so that k * kLn2High is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kShift = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  constexpr double kLowest = -700.0;
  x = x > kLowest ? x : Double2{kLowest, kLowest};
  const Double2 shifted = x * kLog2E + kShift;
  const Double2 k = shifted - kShift;
  const Double2 r = (x - k * kLn2High) - k * kLn2Low;
  // By halves, not from the end: a chain of 13 dependent steps would wait more than it computes.
  const Double2 r2 = r * r;
  const Double2 r4 = r2 * r2;
  const Double2 terms_0_3 = (1.0 + r) + (0.5 + r * (1.0 / 6.0)) * r2;
  const Double2 terms_4_7 = (1.0 / 24.0 + r * (1.0 / 120.0)) + (1.0 / 720.0 + r * (1.0 / 5040.0)) * r2;
  const Double2 terms_8_11 =
      (1.0 / 40320.0 + r * (1.0 / 362880.0)) + (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) * r2;
  const Double2 terms_12_13 = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
  const Double2 sum = terms_0_3 + (terms_4_7 + (terms_8_11 + terms_12_13 * r4) * r4) * r4;
  const Uint2 exponent = (std::bit_cast<Uint2>(shifted) + 1023) << 52;
  return sum * std::bit_cast<Double2>(exponent);
}

inline double Exp(double x) { return Exp(Double2{x, x})[0]; }

// out[i] = e^((logits[i] - max) * scale) for kExpBlock logits, none above max.
inline constexpr uint32_t kExpBlock = 16;
inline void ExpBlock(const float* logits, double max, double scale, double* out) {
  for (uint32_t i = 0; i < kExpBlock; i += 2) {
    const Double2 value = Exp((Double2{logits[i], logits[i + 1]} - max) * scale);
    out[i] = value[0];
    out[i + 1] = value[1];
  }
}

// Natural logarithm of a positive, normal, finite x, relative error below 1e-15 (absolute near 1).
// x = m 2^k with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m - 1) / (m + 1).
inline double Log(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int k = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++k;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int odd = 23; odd >= 3; odd -= 2) sum = (sum + 1.0 / odd) * z;
  return k * kLn2High + (k * kLn2Low + 2.0 * (s + s * sum));
}

}  // namespace spillway::sampling_internal
