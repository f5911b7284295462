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
  static I LoadU8(const uint8_t* p) {
    return MapI([=](int i) { return static_cast<int32_t>(p[i]); });
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

  // The codes of one column of a 32-column block, for 16 rows.
  static I Column4(const uint8_t* codes, int column) {
    return MapI([=](int row) {
      return codes[64 * (column % 16 / 4) + 4 * row + column % 4] >> (column < 16 ? 0 : 4) & 15;
    });
  }
  static I Column8(const uint8_t* codes, int column) {
    return MapI([=](int row) {
      return static_cast<int32_t>(static_cast<int8_t>(codes[64 * (column / 4) + 4 * row + column % 4]));
    });
  }
  static I Column6(const uint8_t* codes, int column) {
    return MapI([=](int row) {
      const int i = 4 * row + column % 4;
      const int nibble = codes[64 * (column % 16 / 4) + i] >> (column < 16 ? 0 : 4) & 15;
      const int pair = codes[256 + 64 * (column / 16) + i] >> (2 * (column % 16 / 4)) & 3;
      return nibble | pair << 4;
    });
  }

  // Exact dots of one 32-column block with R activation rows.
  template <int R>
  static void Dot4(const uint8_t* codes, const int8_t* const (&a)[R], I (&sum)[R]) {
    for (int r = 0; r < R; ++r) {
      sum[r] = MapI([&](int row) {
        int32_t dot = 0;
        for (int c = 0; c < 4; ++c) {
          for (int k = 0; k < 4; ++k) {
            const uint8_t byte = codes[64 * c + 4 * row + k];
            dot += (byte & 15) * a[r][4 * c + k] + (byte >> 4) * a[r][16 + 4 * c + k];
          }
        }
        return dot;
      });
    }
  }
  template <int R>
  static void Dot8(const uint8_t* codes, const int8_t* const (&a)[R], I (&sum)[R]) {
    for (int r = 0; r < R; ++r) {
      sum[r] = MapI([&](int row) {
        int32_t dot = 0;
        for (int c = 0; c < 8; ++c) {
          for (int k = 0; k < 4; ++k)
            dot += static_cast<int8_t>(codes[64 * c + 4 * row + k]) * a[r][4 * c + k];
        }
        return dot;
      });
    }
  }
  // 6-bit codes: columns 0..15 into `low`, 16..31 into `high`.
  template <int R>
  static void Dot6(const uint8_t* codes, const int8_t* const (&a)[R], I (&low)[R], I (&high)[R]) {
    const uint8_t* pairs = codes + 256;
    for (int r = 0; r < R; ++r) {
      for (int half = 0; half < 2; ++half) {
        (half == 0 ? low : high)[r] = MapI([&](int row) {
          int32_t dot = 0;
          for (int c = 0; c < 4; ++c) {
            for (int k = 0; k < 4; ++k) {
              const int i = 4 * row + k;
              const int nibble = half == 0 ? codes[64 * c + i] & 15 : codes[64 * c + i] >> 4;
              const int pair = pairs[64 * half + i] >> (2 * c) & 3;
              dot += (nibble | pair << 4) * a[r][16 * half + 4 * c + k];
            }
          }
          return dot;
        });
      }
    }
  }
};

}  // namespace spillway::cpu
