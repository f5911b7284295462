// What the integer codes of a packed weight mean. Of every kind, 32 columns of 16 rows take 64 * kBits bytes
// (pack.h has their layout). Constants only: the ISA levels' translation units share no code through here.
#pragma once

#include <array>
#include <cstdint>

#include "engine/quant/block_fields.h"

namespace spillway::cpu {

// code - kOffset; sums of codes run over the unsigned code, and the offset is taken off the sum.
template <int kBitsPerCode, int kOffset = 0>
struct UnsignedCodes {
  static constexpr int kBits = kBitsPerCode, kCenter = kOffset;
  static constexpr int kMax = (1 << kBits) - 1;  // largest magnitude that a dot multiplies
  static constexpr bool kSigned = false, kTable = false;
};

struct SignedBytes {
  static constexpr int kBits = 8, kCenter = 0, kMax = 128;
  static constexpr bool kSigned = true, kTable = false;
};

// A 4-bit code names one of 16 signed values.
template <const std::array<int8_t, 16>& kCodebook, int kLargest>
struct TableCodes {
  static constexpr int kBits = 4, kCenter = 0, kMax = kLargest;
  static constexpr bool kSigned = true, kTable = true;
  static constexpr const std::array<int8_t, 16>& kValues = kCodebook;
};
using Iq4Codes = TableCodes<kIq4Values, 127>;
using Mxfp4Codes = TableCodes<kMxfp4Values, 12>;

}  // namespace spillway::cpu
