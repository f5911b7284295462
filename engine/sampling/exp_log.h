// exp and log in double from additions, multiplications and bit operations only. The C library picks another
// rounding by CPU (its FMA variants), which would let a draw differ between two machines. Loops over Exp
// vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace spillway::sampling_internal {

// e^x for x <= 0, relative error below 4e-16; arguments below -700 (and -infinity) count as -700. Not for
// NaN. x = k ln2 + r with |r| <= ln2 / 2, then the Taylor series of e^r to r^13 and the exponent k by
// shifting.
inline double Exp(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits, so that k * kLn2High is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kShift = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  x = x > -700.0 ? x : -700.0;
  const double shifted = x * kLog2E + kShift;
  const double k = shifted - kShift;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023u) << 52;
  return sum * std::bit_cast<double>(exponent);
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
