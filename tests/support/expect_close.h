// Compares tensors. A NaN or an infinity on either side fails, whatever the tolerance: `difference >
// tolerance` is false for NaN, so the comparison is written the other way round.
#pragma once

#include <gtest/gtest.h>

#include <span>

namespace spillway::test {

// Success when sizes are equal, all values finite and every |actual - expected| <= tolerance. The failure's
// message has the worst index, both values, the difference, the tolerance, and how many values are out.
::testing::AssertionResult IsClose(std::span<const double> actual, std::span<const double> expected,
                                   double tolerance);

// The same as a non-fatal expectation. Say where with SCOPED_TRACE.
void ExpectClose(std::span<const double> actual, std::span<const double> expected, double tolerance);
void ExpectClose(std::span<const float> actual, std::span<const float> expected, double tolerance);
void ExpectClose(std::span<const float> actual, std::span<const double> expected, double tolerance);

// Equal bit by bit (so that NaN equals the same NaN and -0 differs from 0); prints the first difference.
void ExpectSameBits(std::span<const float> actual, std::span<const float> expected);

}  // namespace spillway::test
