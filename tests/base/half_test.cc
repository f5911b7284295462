// Goal: every 16-bit pattern converts as its definition says, and every rounding decision from float32 (the
// midpoint between two neighbours and the floats beside it) goes to the nearest, ties to even. Where the
// compiler knows _Float16, random floats are compared with it as well.
#include "engine/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace spillway {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a pattern by the definition of the format, in double.
double Value(uint16_t pattern, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int mantissa = pattern & ((1 << mantissa_bits) - 1);
  const int exponent = (pattern >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = (pattern & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * kInfinity : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

struct Format {
  int mantissa_bits;
  int exponent_bits;
  float (*widen)(uint16_t);
  uint16_t (*round)(float);
};
constexpr Format kFormats[] = {{10, 5, F16ToF32, F32ToF16}, {7, 8, Bf16ToF32, F32ToBf16}};

TEST(Half, EveryPatternWidensToItsValue) {
  for (const Format& format : kFormats) {
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const auto bits = static_cast<uint16_t>(pattern);
      const double expected = Value(bits, format.mantissa_bits, format.exponent_bits);
      const float widened = format.widen(bits);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(widened)) << pattern;
        continue;
      }
      ASSERT_EQ(static_cast<double>(widened), expected) << pattern;
      ASSERT_EQ(std::signbit(widened), (pattern & 0x8000) != 0) << pattern;
    }
  }
}

TEST(Half, EveryPatternSurvivesTheWayThroughFloat) {
  for (const Format& format : kFormats) {
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const auto bits = static_cast<uint16_t>(pattern);
      const float widened = format.widen(bits);
      if (std::isnan(widened)) {
        ASSERT_TRUE(std::isnan(format.widen(format.round(widened)))) << pattern;
        ASSERT_EQ(format.round(widened) & 0x8000, pattern & 0x8000) << pattern;
      } else {
        ASSERT_EQ(format.round(widened), bits) << pattern;
      }
    }
  }
}

TEST(Half, EveryMidpointRoundsToEvenAndItsNeighboursToTheNearest) {
  for (const Format& format : kFormats) {
    const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    for (uint32_t sign : {0u, 0x8000u}) {
      // Between infinity and the largest finite value the midpoint is where the next power would begin to be
      // nearer.
      for (uint32_t below = 0; below < infinity; ++below) {
        const auto low = static_cast<uint16_t>(below | sign);
        const auto high = static_cast<uint16_t>((below + 1) | sign);
        const double low_value = Value(low, format.mantissa_bits, format.exponent_bits);
        const double previous =
            below == 0 ? low_value : Value(low - 1, format.mantissa_bits, format.exponent_bits);
        const double high_value = below + 1 < infinity
                                      ? Value(high, format.mantissa_bits, format.exponent_bits)
                                      : low_value + (low_value - previous);
        const auto middle = static_cast<float>((low_value + high_value) / 2);
        ASSERT_EQ(static_cast<double>(middle), (low_value + high_value) / 2) << below;
        const float away = sign != 0 ? -kInfinity : kInfinity;
        ASSERT_EQ(format.round(middle), (low & 1) == 0 ? low : high) << below;
        ASSERT_EQ(format.round(std::nextafter(middle, 0.0f)), low) << below;
        ASSERT_EQ(format.round(std::nextafter(middle, away)), high) << below;
      }
    }
  }
}

TEST(Half, BeyondTheRangeIsInfinityAndNanStaysNan) {
  for (const Format& format : kFormats) {
    const auto infinity = static_cast<uint16_t>(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
    EXPECT_EQ(format.round(std::numeric_limits<float>::max()), infinity);
    EXPECT_EQ(format.round(-std::numeric_limits<float>::max()), infinity | 0x8000);
    EXPECT_EQ(format.round(kInfinity), infinity);
    // A NaN whose payload lies only in the bits that are cut off.
    EXPECT_TRUE(std::isnan(format.widen(format.round(std::bit_cast<float>(0x7f800001u)))));
    EXPECT_TRUE(std::isnan(format.widen(format.round(std::bit_cast<float>(0xffffffffu)))));
  }
}

#if defined(__FLT16_MANT_DIG__)
TEST(Half, RandomFloatsRoundAsTheCompilersHalf) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000000; ++i) {
    // Every second one within the range of halves, where the decisions are.
    uint32_t bits = random();
    if (i % 2 == 0) bits = (bits & 0x807fffffu) | ((100 + bits % 45) << 23);
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(F32ToF16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}
#endif

}  // namespace
}  // namespace spillway
