// Digit by digit, from the left: while all digits so far are those of a bound the next one is limited by it.
#include "engine/grammar/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace spillway::grammar {
namespace {

constexpr int kMaxWholeDigitsOfDecimal = 9;

// Magnitudes in [low, high], in units of 10^-fraction.
class RangeWriter {
 public:
  RangeWriter(Nfa& nfa, uint32_t end, int fraction) : nfa_(nfa), end_(end), fraction_(fraction) {}

  void Write(uint32_t from, uint64_t low, uint64_t high, int max_whole_digits) {
    for (int whole = 1; whole <= max_whole_digits; ++whole) {
      const size_t digits = static_cast<size_t>(whole) + static_cast<size_t>(fraction_);
      // The numbers with so many digits before the point; "0" is the only one that begins with 0.
      const uint64_t least = whole == 1 ? 0 : Power(digits - 1);
      const uint64_t greatest = Power(digits) - 1;
      const uint64_t first = std::max(low, least);
      const uint64_t last = std::min(high, greatest);
      if (first > last) continue;
      low_ = fmt::format("{:0{}}", first, digits);
      high_ = fmt::format("{:0{}}", last, digits);
      whole_ = static_cast<size_t>(whole);
      WriteDigits(from, 0, true, true);
    }
  }

 private:
  static uint64_t Power(size_t exponent) {
    uint64_t value = 1;
    for (size_t i = 0; i < exponent; ++i) value *= 10;
    return value;
  }

  // `tight_low`: the digits so far are the lower bound's.
  void WriteDigits(uint32_t from, size_t at, bool tight_low, bool tight_high) {
    const bool complete = at >= whole_;
    // What is not written counts as zeros.
    const bool reaches_low = !tight_low || low_.find_first_not_of('0', at) == std::string::npos;
    if (complete && reaches_low && (at == whole_ || at > whole_)) nfa_.AddEmpty(from, end_);
    if (at == low_.size()) return;
    uint32_t digit_from = from;
    if (at == whole_) {
      digit_from = nfa_.AddState();
      nfa_.AddEdge(from, '.', '.', digit_from);
    }
    const char low = tight_low ? low_[at] : '0';
    const char high = tight_high ? high_[at] : '9';
    // Digits at the bounds lead to their own states, those between to one that nothing limits any more.
    for (char digit = low; digit <= high; ++digit) {
      const bool at_low = tight_low && digit == low;
      const bool at_high = tight_high && digit == high;
      const uint32_t next = nfa_.AddState();
      if (at_low || at_high) {
        nfa_.AddEdge(digit_from, static_cast<uint8_t>(digit), static_cast<uint8_t>(digit), next);
        WriteDigits(next, at + 1, at_low, at_high);
        continue;
      }
      const char last = tight_high ? static_cast<char>(high - 1) : high;
      nfa_.AddEdge(digit_from, static_cast<uint8_t>(digit), static_cast<uint8_t>(last), next);
      WriteDigits(next, at + 1, false, false);
      digit = last;
    }
  }

  Nfa& nfa_;
  const uint32_t end_;
  const int fraction_;
  size_t whole_ = 0;
  std::string low_, high_;
};

absl::StatusOr<Dfa> Range(int64_t low, int64_t high, int fraction, int max_whole_digits) {
  Nfa nfa;
  const uint32_t begin = nfa.AddState();
  const uint32_t end = nfa.AddState();
  RangeWriter writer(nfa, end, fraction);
  if (high >= 0)
    writer.Write(begin, static_cast<uint64_t>(std::max<int64_t>(low, 0)), static_cast<uint64_t>(high),
                 max_whole_digits);
  if (low < 0) {
    const uint32_t minus = nfa.AddState();
    nfa.AddEdge(begin, '-', '-', minus);
    const auto least = static_cast<uint64_t>(std::max<int64_t>(-high, 1));
    writer.Write(minus, least, static_cast<uint64_t>(-low), max_whole_digits);
  }
  return BuildDfa(nfa, {begin, end});
}

}  // namespace

absl::StatusOr<Dfa> IntegerRange(int64_t low, int64_t high) { return Range(low, high, 0, kMaxIntegerDigits); }

absl::StatusOr<Dfa> DecimalRange(int64_t low, int64_t high) {
  return Range(low, high, kFractionDigits, kMaxWholeDigitsOfDecimal);
}

absl::StatusOr<Dfa> Multiples(uint32_t divisor) {
  if (divisor == 0) return Dfa();
  // State first + r: the digits so far leave r; the sign does not matter.
  Nfa nfa;
  const uint32_t begin = nfa.AddState();
  const uint32_t unsigned_begin = nfa.AddState();
  const uint32_t end = nfa.AddState();
  const uint32_t zero = nfa.AddState();
  nfa.AddEdge(begin, '-', '-', unsigned_begin);
  nfa.AddEmpty(begin, unsigned_begin);
  nfa.AddEdge(unsigned_begin, '0', '0', zero);
  nfa.AddEmpty(zero, end);
  const auto first = static_cast<uint32_t>(nfa.size());
  for (uint32_t i = 0; i < divisor; ++i) nfa.AddState();
  for (uint32_t digit = 0; digit < 10; ++digit) {
    const auto byte = static_cast<uint8_t>('0' + digit);
    if (digit > 0) nfa.AddEdge(unsigned_begin, byte, byte, first + digit % divisor);
    for (uint32_t rest = 0; rest < divisor; ++rest)
      nfa.AddEdge(first + rest, byte, byte, first + (rest * 10 + digit) % divisor);
  }
  nfa.AddEmpty(first, end);
  return BuildDfa(nfa, {begin, end});
}

}  // namespace spillway::grammar
