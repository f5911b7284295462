// Parts of ggml's block layouts that both the reference dequantizers and the host's packing read: codebooks
// and packed sub-scales. Templates over the byte type, because one side holds std::byte and the other
// uint8_t.
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

// The codebook shared by IQ4_NL and IQ4_XS.
inline constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};
// E2M1 values doubled, so that they are integers; the exponent makes up for it.
inline constexpr std::array<int8_t, 16> kMxfp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};

struct ScaleMin {
  int scale;
  int min;
};

// Entry `j` of the eight 6-bit pairs that Q4_K and Q5_K pack into 12 bytes.
template <class Byte>
ScaleMin PackedScaleMin(const Byte* p, int j) {
  const auto at = [p](int i) { return static_cast<int>(p[i]); };
  if (j < 4) return {at(j) & 63, at(j + 4) & 63};
  return {(at(j + 4) & 15) | (at(j - 4) >> 6) << 4, (at(j + 4) >> 4) | (at(j) >> 6) << 4};
}

// Entry `j` of the sixteen 6-bit scales that Q3_K packs into 12 bytes: low nibbles first, then pairs of high
// bits.
template <class Byte>
int Q3Scale(const Byte* p, int j) {
  const auto at = [p](int i) { return static_cast<int>(p[i]); };
  const int low = j < 8 ? at(j) & 15 : at(j - 8) >> 4;
  return (low | (at(8 + j % 4) >> (2 * (j / 4)) & 3) << 4) - 32;
}

// Entry `j` of the eight 6-bit scales of an IQ4_XS block: nibbles from byte 4 on, pairs of high bits in bytes
// 2 and 3.
template <class Byte>
int Iq4XsScale(const Byte* block, int j) {
  const auto at = [block](int i) { return static_cast<int>(block[i]); };
  const int low = at(4 + j / 2) >> (4 * (j % 2)) & 15;
  return (low | (at(2 + j / 4) >> (2 * (j % 4)) & 3) << 4) - 32;
}

}  // namespace spillway
