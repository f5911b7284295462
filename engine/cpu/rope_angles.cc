// sin and cos in double with our own reduction and polynomials, so that no libm version can move a bit.
#include <cmath>

#include "engine/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// Taylor polynomials on |r| <= pi/4; the truncation error is under 1e-17.
double SinPolynomial(double r) {
  const double z = r * r;
  double p = 1.0 / 355687428096000.0;
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r + r * z * p;
}

double CosPolynomial(double r) {
  const double z = r * r;
  double p = -1.0 / 6402373705728000.0;
  p = p * z + 1.0 / 20922789888000.0;
  p = p * z - 1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

}  // namespace

void RopeAngles(uint32_t position, const float* frequencies, uint32_t n, float* cos_out, float* sin_out) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  // pi/2 in two parts: quarters * kHigh is exact for quarters < 2^20 (33 significant bits in kHigh).
  constexpr double kHigh = 1.57079632673412561417;
  constexpr double kLow = 6.07710050650619224932e-11;
  for (uint32_t i = 0; i < n; ++i) {
    const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
    const double quarters = std::nearbyint(angle * kTwoOverPi);
    const double r = (angle - quarters * kHigh) - quarters * kLow;
    const double s = SinPolynomial(r);
    const double c = CosPolynomial(r);
    switch (static_cast<int64_t>(quarters) & 3) {
      case 0:
        cos_out[i] = static_cast<float>(c);
        sin_out[i] = static_cast<float>(s);
        break;
      case 1:
        cos_out[i] = static_cast<float>(-s);
        sin_out[i] = static_cast<float>(c);
        break;
      case 2:
        cos_out[i] = static_cast<float>(-c);
        sin_out[i] = static_cast<float>(-s);
        break;
      default:
        cos_out[i] = static_cast<float>(s);
        sin_out[i] = static_cast<float>(-c);
        break;
    }
  }
}

}  // namespace spillway::cpu
