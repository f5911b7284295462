// JSON numbers within bounds as automata. Numbers are taken as multiples of a power of ten, so that bounds
// and comparisons are exact.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "engine/grammar/dfa.h"

namespace spillway::grammar {

inline constexpr int kMaxIntegerDigits = 15;  // what a double holds exactly
inline constexpr int kFractionDigits = 6;     // written after the point of a bounded number

// Integers in [low, high], written without exponent; both within kMaxIntegerDigits digits.
absl::StatusOr<Dfa> IntegerRange(int64_t low, int64_t high);
// Numbers in [low, high], both in millionths (10^-kFractionDigits), with at most nine digits before the
// point.
absl::StatusOr<Dfa> DecimalRange(int64_t low, int64_t high);
// Integers divisible by `divisor` (at least 1).
absl::StatusOr<Dfa> Multiples(uint32_t divisor);

}  // namespace spillway::grammar
