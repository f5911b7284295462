// One comparison in double; the float overloads widen first.
#include "tests/support/expect_close.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace spillway::test {
namespace {

std::vector<double> Widen(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

::testing::AssertionResult IsClose(std::span<const double> actual, std::span<const double> expected,
                                   double tolerance) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << "sizes differ: actual " << actual.size() << ", expected " << expected.size();
  }
  size_t bad = 0;
  size_t worst = 0;
  double worst_difference = -1.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const bool finite = std::isfinite(actual[i]) && std::isfinite(expected[i]);
    const double difference = finite ? std::fabs(actual[i] - expected[i]) : INFINITY;
    if (finite && difference <= tolerance) continue;
    ++bad;
    if (difference > worst_difference) {
      worst = i;
      worst_difference = difference;
    }
  }
  if (bad == 0) return ::testing::AssertionSuccess();
  ::testing::AssertionResult result = ::testing::AssertionFailure();
  result.operator<<(bad) << " of " << actual.size() << " values are out; worst at index " << worst
                         << ": actual " << actual[worst] << ", expected " << expected[worst]
                         << ", difference " << worst_difference << ", tolerance " << tolerance;
  return result;
}

void ExpectClose(std::span<const double> actual, std::span<const double> expected, double tolerance) {
  EXPECT_TRUE(IsClose(actual, expected, tolerance));
}

void ExpectClose(std::span<const float> actual, std::span<const float> expected, double tolerance) {
  EXPECT_TRUE(IsClose(Widen(actual), Widen(expected), tolerance));
}

void ExpectClose(std::span<const float> actual, std::span<const double> expected, double tolerance) {
  EXPECT_TRUE(IsClose(Widen(actual), expected, tolerance));
}

void ExpectSameBits(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
        << "first difference at index " << i << ": actual " << actual[i] << ", expected " << expected[i];
  }
}

}  // namespace spillway::test
