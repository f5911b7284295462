// Goal: the sampler's own exp and log are as good as the C library's (in long double) over their whole
// ranges.
#include "engine/sampling/exp_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace spillway::sampling_internal {
namespace {

TEST(SamplingExp, MatchesLongDoubleToFourUnitsOfTheSixteenthDigit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double scale = i % 2 == 0 ? 1.0 : 700.0;
    const double x = -scale * std::uniform_real_distribution<double>()(random);
    const long double expected = std::exp(static_cast<long double>(x));
    ASSERT_NEAR(static_cast<double>(Exp(x) / expected), 1.0, 4e-16) << x;
  }
}

TEST(SamplingExp, IsExactAtZeroAndNegligibleFarBelow) {
  EXPECT_EQ(Exp(0.0), 1.0);
  EXPECT_LT(Exp(-1e300), 1e-300);
  EXPECT_LT(Exp(-std::numeric_limits<double>::infinity()), 1e-300);
}

TEST(SamplingLog, MatchesLongDouble) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200000; ++i) {
    const double x = std::exp2(std::uniform_real_distribution<double>(-60.0, 60.0)(random));
    const long double expected = std::log(static_cast<long double>(x));
    ASSERT_NEAR(Log(x), static_cast<double>(expected), 1e-15 * std::max(1.0L, std::fabs(expected))) << x;
  }
  EXPECT_EQ(Log(1.0), 0.0);
}

}  // namespace
}  // namespace spillway::sampling_internal
