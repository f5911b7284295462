// The 16-lane vector type on AVX2 + FMA + F16C: two 8-lane registers. Same results as ScalarSimd, bit for
// bit. Included only by translation units compiled for that level.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace spillway::cpu {

struct Avx2Simd {
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };

  static F Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void Store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  static __m128i Load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m256i Load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static F LoadF16(const uint16_t* p) {
    return {_mm256_cvtph_ps(Load128(p)), _mm256_cvtph_ps(Load128(p + 8))};
  }
  static F LoadBf16(const uint16_t* p) {
    const auto widen = [](__m128i x) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    };
    return {widen(Load128(p)), widen(Load128(p + 8))};
  }
  static void StoreF16(uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
  }
  static F Add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static F Sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static F Mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static F Div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static F Fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static F Fnma(F x, F y, F z) { return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)}; }
  static F Max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F Min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F Abs(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  static F Round(F x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
  }
  static F Pow2(F n) {
    const auto power = [](__m256 x) {
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvttps_epi32(x), _mm256_set1_epi32(127)), 23));
    };
    return {power(n.a), power(n.b)};
  }
  static float Sum(F x) {
    const __m256 eight = _mm256_add_ps(x.a, x.b);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static float MaxOf(F x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  static F ToFloat(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  static I AddI(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  static I MulI(I x, I y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
  static I SubI(I x, int32_t y) {
    const __m256i all = _mm256_set1_epi32(y);
    return {_mm256_sub_epi32(x.a, all), _mm256_sub_epi32(x.b, all)};
  }
  static I LoadU8(const uint8_t* p) {
    const __m128i x = Load128(p);
    return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
  }
  static I LoadI8(const uint8_t* p) {
    const __m128i x = Load128(p);
    return {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
  }

  static void StoreI8(int8_t* p, F x) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
  static int32_t SumI8(const int8_t* p) {
    const __m256i words = _mm256_cvtepi8_epi16(Load128(p));
    const __m256i pairs = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }

  static int FirstEqual(F x, F y, float value) {
    const __m256 all = _mm256_set1_ps(value);
    const auto mask = [all](__m256 v) {
      return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, all, _CMP_EQ_OQ)));
    };
    const uint32_t bits = mask(x.a) | mask(x.b) << 8 | mask(y.a) << 16 | mask(y.b) << 24;
    return bits == 0 ? 0 : __builtin_ctz(bits);
  }

  // Every row's byte stands in its own 32-bit lane: shift it down and mask.
  static I Field(const uint8_t* chunk, int shift, int mask) {
    const __m128i count = _mm_cvtsi32_si128(shift);
    const __m256i keep = _mm256_set1_epi32(mask);
    return {_mm256_and_si256(_mm256_srl_epi32(Load256(chunk), count), keep),
            _mm256_and_si256(_mm256_srl_epi32(Load256(chunk + 32), count), keep)};
  }
  static I Column4(const uint8_t* codes, int column) {
    return Field(codes + 64 * (column % 16 / 4), 8 * (column % 4) + (column < 16 ? 0 : 4), 15);
  }
  static I Column8(const uint8_t* codes, int column) {
    const uint8_t* chunk = codes + 64 * (column / 4);
    const __m128i count = _mm_cvtsi32_si128(24 - 8 * (column % 4));
    return {_mm256_srai_epi32(_mm256_sll_epi32(Load256(chunk), count), 24),
            _mm256_srai_epi32(_mm256_sll_epi32(Load256(chunk + 32), count), 24)};
  }
  static I Column6(const uint8_t* codes, int column) {
    const I nibble = Column4(codes, column);
    const I pair = Field(codes + 256 + 64 * (column / 16), 8 * (column % 4) + 2 * (column % 16 / 4), 3);
    return {_mm256_or_si256(nibble.a, _mm256_slli_epi32(pair.a, 4)),
            _mm256_or_si256(nibble.b, _mm256_slli_epi32(pair.b, 4))};
  }

  // Four activations in every 32-bit lane.
  static __m256i Broadcast4(const int8_t* p) {
    int32_t quad;
    std::memcpy(&quad, p, 4);
    return _mm256_set1_epi32(quad);
  }

  // 15 * 127 * 2 products * 8 quads = 30480 fits int16: one widening per block.
  template <int R>
  static void Dot4(const uint8_t* codes, const int8_t* const (&a)[R], I (&sum)[R]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i mask = _mm256_set1_epi8(15);
    for (int half = 0; half < 2; ++half) {
      __m256i words[R];
      for (int r = 0; r < R; ++r) words[r] = _mm256_setzero_si256();
      for (int c = 0; c < 4; ++c) {
        const __m256i packed = Load256(codes + 64 * c + 32 * half);
        const __m256i low = _mm256_and_si256(packed, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(packed, 4), mask);
        for (int r = 0; r < R; ++r) {
          const __m256i product = _mm256_add_epi16(_mm256_maddubs_epi16(low, Broadcast4(a[r] + 4 * c)),
                                                   _mm256_maddubs_epi16(high, Broadcast4(a[r] + 16 + 4 * c)));
          words[r] = _mm256_add_epi16(words[r], product);
        }
      }
      for (int r = 0; r < R; ++r) (half == 0 ? sum[r].a : sum[r].b) = _mm256_madd_epi16(words[r], ones);
    }
  }
  // |w| * sign(a, w): 128 * 127 * 2 fits int16, so each quad is widened on its own.
  template <int R>
  static void Dot8(const uint8_t* codes, const int8_t* const (&a)[R], I (&sum)[R]) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int half = 0; half < 2; ++half) {
      __m256i total[R];
      for (int r = 0; r < R; ++r) total[r] = _mm256_setzero_si256();
      for (int c = 0; c < 8; ++c) {
        const __m256i w = Load256(codes + 64 * c + 32 * half);
        const __m256i magnitude = _mm256_abs_epi8(w);
        for (int r = 0; r < R; ++r) {
          const __m256i signed_a = _mm256_sign_epi8(Broadcast4(a[r] + 4 * c), w);
          total[r] =
              _mm256_add_epi32(total[r], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_a), ones));
        }
      }
      for (int r = 0; r < R; ++r) (half == 0 ? sum[r].a : sum[r].b) = total[r];
    }
  }
  // 63 * 127 * 2 products * 2 quads = 32004 fits int16.
  template <int R>
  static void Dot6(const uint8_t* codes, const int8_t* const (&a)[R], I (&low)[R], I (&high)[R]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i mask4 = _mm256_set1_epi8(15);
    const __m256i mask2 = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m256i pairs_low = Load256(codes + 256 + 32 * half);
      const __m256i pairs_high = Load256(codes + 320 + 32 * half);
      __m256i total_low[R], total_high[R];
      for (int r = 0; r < R; ++r) total_low[r] = total_high[r] = _mm256_setzero_si256();
      for (int c = 0; c < 4; c += 2) {
        __m256i u[2][2];  // [column half][quad c, c+1]
        for (int k = 0; k < 2; ++k) {
          const __m256i packed = Load256(codes + 64 * (c + k) + 32 * half);
          // Bits 2(c+k)..2(c+k)+1 of each byte go to bits 4..5; the mask drops what the 16-bit shift carries
          // over.
          const auto to_bits4 = [&](__m256i pairs) {
            const int shift = 4 - 2 * (c + k);
            const __m256i moved =
                shift >= 0 ? _mm256_slli_epi16(pairs, shift) : _mm256_srli_epi16(pairs, -shift);
            return _mm256_and_si256(moved, mask2);
          };
          u[0][k] = _mm256_or_si256(_mm256_and_si256(packed, mask4), to_bits4(pairs_low));
          u[1][k] =
              _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(packed, 4), mask4), to_bits4(pairs_high));
        }
        for (int r = 0; r < R; ++r) {
          const __m256i words_low =
              _mm256_add_epi16(_mm256_maddubs_epi16(u[0][0], Broadcast4(a[r] + 4 * c)),
                               _mm256_maddubs_epi16(u[0][1], Broadcast4(a[r] + 4 * c + 4)));
          const __m256i words_high =
              _mm256_add_epi16(_mm256_maddubs_epi16(u[1][0], Broadcast4(a[r] + 16 + 4 * c)),
                               _mm256_maddubs_epi16(u[1][1], Broadcast4(a[r] + 20 + 4 * c)));
          total_low[r] = _mm256_add_epi32(total_low[r], _mm256_madd_epi16(words_low, ones));
          total_high[r] = _mm256_add_epi32(total_high[r], _mm256_madd_epi16(words_high, ones));
        }
      }
      for (int r = 0; r < R; ++r) {
        (half == 0 ? low[r].a : low[r].b) = total_low[r];
        (half == 0 ? high[r].a : high[r].b) = total_high[r];
      }
    }
  }
};

}  // namespace spillway::cpu
