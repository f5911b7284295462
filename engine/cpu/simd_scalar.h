// The 16-lane vector type in plain C++: the definition of every lane operation, and the level of last resort.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/base/half.h"

namespace spillway::cpu {

struct ScalarSimd {
  struct F {
    float v[16];
  };
  struct I {
    int32_t v[16];
  };

  template <typename Op>
  static F Map(Op op) {
    F out;
    for (int i = 0; i < 16; ++i) out.v[i] = op(i);
    return out;
  }
  template <typename Op>
  static I MapI(Op op) {
    I out;
    for (int i = 0; i < 16; ++i) out.v[i] = op(i);
    return out;
  }

  static F Zero() { return Set1(0.0f); }
  static F Set1(float x) {
    return Map([=](int) { return x; });
  }
  static F Load(const float* p) {
    return Map([=](int i) { return p[i]; });
  }
  static void Store(float* p, F a) { std::memcpy(p, a.v, sizeof(a.v)); }
  static F LoadF16(const uint16_t* p) {
    return Map([=](int i) { return F16ToF32(p[i]); });
  }
  static F LoadBf16(const uint16_t* p) {
    return Map([=](int i) { return Bf16ToF32(p[i]); });
  }
  static void StoreF16(uint16_t* p, F a) {
    for (int i = 0; i < 16; ++i) p[i] = F32ToF16(a.v[i]);
  }
  static F Add(F a, F b) {
    return Map([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F Sub(F a, F b) {
    return Map([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F Mul(F a, F b) {
    return Map([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F Div(F a, F b) {
    return Map([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F Fma(F a, F b, F c) {
    return Map([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  static F Fnma(F a, F b, F c) {
    return Map([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
  }
  static F Max(F a, F b) {
    return Map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F Min(F a, F b) {
    return Map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F Abs(F a) {
    return Map([&](int i) { return std::fabs(a.v[i]); });
  }
  static F Round(F a) {
    return Map([&](int i) { return std::nearbyintf(a.v[i]); });
  }
  // 2^n for integral n in [-126, 127].
  static F Pow2(F n) {
    return Map([&](int i) { return std::bit_cast<float>((static_cast<int32_t>(n.v[i]) + 127) << 23); });
  }
  // Fixed tree: lanes i and i+8, then +4, +2, +1.
  static float Sum(F a) {
    for (int half = 8; half >= 1; half /= 2) {
      for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
    }
    return a.v[0];
  }
  static float MaxOf(F a) {
    float best = a.v[0];
    for (int i = 1; i < 16; ++i) best = a.v[i] > best ? a.v[i] : best;
    return best;
  }

  static F ToFloat(I a) {
    return Map([&](int i) { return static_cast<float>(a.v[i]); });
  }
  static I AddI(I a, I b) {
    return MapI([&](int i) { return a.v[i] + b.v[i]; });
  }
  static I MulI(I a, I b) {
    return MapI([&](int i) { return a.v[i] * b.v[i]; });
  }
  static I SubI(I a, int32_t b) {
    return MapI([&](int i) { return a.v[i] - b; });
  }
  static I Set1I(int32_t x) {
    return MapI([=](int) { return x; });
  }
  // The four bits from `shift` on of 16 bytes.
  static I LoadU4(const uint8_t* p, int shift) {
    return MapI([=](int i) { return p[i] >> shift & 15; });
  }
  static I LoadI8(const uint8_t* p) {
    return MapI([=](int i) { return static_cast<int32_t>(static_cast<int8_t>(p[i])); });
  }

  // Round-to-nearest-even int8 codes of |a| <= 127; NaN becomes -128, as the vector conversion has it.
  static void StoreI8(int8_t* p, F a) {
    for (int i = 0; i < 16; ++i)
      p[i] = a.v[i] == a.v[i] ? static_cast<int8_t>(std::nearbyintf(a.v[i])) : int8_t{-128};
  }
  static int32_t SumI8(const int8_t* p) {
    int32_t sum = 0;
    for (int i = 0; i < 16; ++i) sum += p[i];
    return sum;
  }

  // Index of the first of 32 lanes (a, then b) that equals x; 0 when none does.
  static int FirstEqual(F a, F b, float x) {
    for (int i = 0; i < 32; ++i) {
      if ((i < 16 ? a.v[i] : b.v[i - 16]) == x) return i;
    }
    return 0;
  }

  // One code of a 32-column block, put together from its planes (pack.h).
  template <class Codes>
  static int32_t Code(const uint8_t* codes, int row, int column) {
    const int quad = column / 4;
    int value = 0;
    int at = 0;
    for (int width = 8; width >= 1; width /= 2) {
      if ((Codes::kBits & width) == 0) continue;
      const int byte = codes[64 * (quad % width) + 4 * row + column % 4];
      value |= (byte >> (width * (quad / width)) & ((1 << width) - 1)) << at;
      codes += 64 * width;
      at += width;
    }
    if constexpr (Codes::kTable) return Codes::kValues[static_cast<size_t>(value)];
    return Codes::kSigned ? static_cast<int8_t>(value) : value;
  }
  // The codes of one column, for 16 rows; without Codes::kCenter taken off.
  template <class Codes>
  static I Column(const uint8_t* codes, int column) {
    return MapI([=](int row) { return Code<Codes>(codes, row, column); });
  }

  // Exact dots of one 32-column block with R activation rows, one sum per 32 / kSums columns.
  template <class Codes, int kSums, int R>
  static void Dot(const uint8_t* codes, const int8_t* const (&a)[R], I (&sums)[kSums][R]) {
    for (int row = 0; row < 16; ++row) {
      int32_t code[32];
      for (int column = 0; column < 32; ++column) code[column] = Code<Codes>(codes, row, column);
      for (int r = 0; r < R; ++r) {
        for (int s = 0; s < kSums; ++s) {
          int32_t dot = 0;
          for (int i = 32 / kSums * s; i < 32 / kSums * (s + 1); ++i) dot += code[i] * a[r][i];
          sums[s][r].v[row] = dot;
        }
      }
    }
  }
};

}  // namespace spillway::cpu
