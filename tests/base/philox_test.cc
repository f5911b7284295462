// Goal: the generator gives the values its authors published, and a draw depends on each part of its key and
// counter.
#include "engine/base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace spillway {
namespace {

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

TEST(Philox, GivesThePublishedValues) {
  EXPECT_EQ(Philox4x32(Counter{0, 0, 0, 0}, Key{0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32(Counter{kOnes, kOnes, kOnes, kOnes}, Key{kOnes, kOnes}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi.
  EXPECT_EQ(Philox4x32(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Key{0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformDraw, TakesTheFirst53BitsOfTheFirstTwoWords) {
  // 0x6627e8d5e169c58d >> 11, of the published values for zero.
  EXPECT_EQ(UniformDraw(0, 0, 0), static_cast<double>(0x6627e8d5e169c58du >> 11) * 0x1p-53);
}

TEST(UniformDraw, DependsOnEveryPartOfItsArguments) {
  const std::set<double> draws = {
      UniformDraw(0, 0, 0), UniformDraw(1, 0, 0), UniformDraw(uint64_t{1} << 32, 0, 0),
      UniformDraw(0, 1, 0), UniformDraw(0, 0, 1), UniformDraw(0, 0, uint64_t{1} << 32),
  };
  EXPECT_EQ(draws.size(), 6u);
  EXPECT_EQ(UniformDraw(5, 6, 7), UniformDraw(5, 6, 7));
}

TEST(UniformDraw, IsUniformInTheHalfOpenUnitInterval) {
  constexpr int kBins = 64;
  constexpr int kDraws = 100000;
  std::array<int, kBins> seen = {};
  for (uint64_t position = 0; position < kDraws; ++position) {
    const double u = UniformDraw(123456789, 0, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++seen[static_cast<size_t>(u * kBins)];
  }
  double statistic = 0.0;
  constexpr double kExpected = static_cast<double>(kDraws) / kBins;
  for (const int n : seen) statistic += (n - kExpected) * (n - kExpected) / kExpected;
  EXPECT_LT(statistic, 103.4);  // 63 degrees of freedom: once in a thousand seeds
}

}  // namespace
}  // namespace spillway
