// The 16-lane vector type on AVX2 + FMA + F16C: two 8-lane registers. Same results as ScalarSimd, bit for
// bit. Included only by translation units compiled for that level.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

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
  static I Set1I(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static I LoadU4(const uint8_t* p, int shift) {
    const __m128i x = _mm_and_si128(_mm_srl_epi16(Load128(p), _mm_cvtsi32_si128(shift)), _mm_set1_epi8(15));
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
  template <class Codes>
  static __m256i LookUp(__m256i index) {
    constexpr const int8_t* kValues = Codes::kValues.data();
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(Load128(kValues)), index);
  }
  // Sign-extends the byte that ends at bit 32 - `left` of every 32-bit lane.
  static __m256i ExtendByte(__m256i x, int left) {
    return _mm256_srai_epi32(_mm256_sll_epi32(x, _mm_cvtsi32_si128(left)), 24);
  }
  template <class Codes>
  static I Column(const uint8_t* codes, int column) {
    const int quad = column / 4;
    if constexpr (Codes::kBits == 8) {
      const int left = 24 - 8 * (column % 4);
      return {ExtendByte(Load256(codes + 64 * quad), left),
              ExtendByte(Load256(codes + 64 * quad + 32), left)};
    }
    I value = Set1I(0);
    int at = 0;
    for (int width = 4; width >= 1; width /= 2) {
      if ((Codes::kBits & width) == 0) continue;
      const I part =
          Field(codes + 64 * (quad % width), 8 * (column % 4) + width * (quad / width), (1 << width) - 1);
      value = {_mm256_or_si256(value.a, _mm256_slli_epi32(part.a, at)),
               _mm256_or_si256(value.b, _mm256_slli_epi32(part.b, at))};
      codes += 64 * width;
      at += width;
    }
    if constexpr (Codes::kTable) {
      return {ExtendByte(LookUp<Codes>(value.a), 24), ExtendByte(LookUp<Codes>(value.b), 24)};
    }
    return value;
  }

  // Four activations in every 32-bit lane.
  static __m256i Broadcast4(const int8_t* p) {
    int32_t quad;
    std::memcpy(&quad, p, 4);
    return _mm256_set1_epi32(quad);
  }

  // The codes of a quad of 8 rows, one a byte; `codes` is moved on to those rows.
  template <class Codes, int kQuad>
  static __m256i Quad(const uint8_t* codes) {
    __m256i value = _mm256_setzero_si256();
    int at = 0;
    for (int width = 8; width >= 1; width /= 2) {
      if ((Codes::kBits & width) == 0) continue;
      // The mask drops what the 16-bit shift carries over from the neighbour byte.
      const __m256i chunk = Load256(codes + 64 * (kQuad % width));
      const int left = at - width * (kQuad / width);
      const __m256i moved = left > 0   ? _mm256_slli_epi16(chunk, left)
                            : left < 0 ? _mm256_srli_epi16(chunk, -left)
                                       : chunk;
      const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << width) - 1) << at));
      value = _mm256_or_si256(value, _mm256_and_si256(moved, mask));
      codes += 64 * width;
      at += width;
    }
    if constexpr (Codes::kTable) return LookUp<Codes>(value);
    return value;
  }

  // The sums of one of the two registers. Products of code and activation are added in 16 bits for as many
  // quads as cannot overflow there (2 products of up to kMax * 127 each), then widened.
  template <class Codes, int kSums, int R>
  struct DotState {
    static constexpr int kFit = 32767 / (2 * 127 * Codes::kMax), kPerSum = 8 / kSums;
    static constexpr int kSpan = kFit >= kPerSum ? kPerSum : kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
    __m256i words[R];
    __m256i total[kSums][R];

    template <int kStep>
    void Add(const uint8_t* codes, const int8_t* const (&a)[R]) {
      // One sum: quads c and c + 4 in turn, since they share the chunks of 4-bit planes.
      constexpr int kQuad = kSums == 1 ? kStep / 2 + kStep % 2 * 4 : kStep;
      const __m256i code = Quad<Codes, kQuad>(codes);
      for (int r = 0; r < R; ++r) {
        const __m256i activations = Broadcast4(a[r] + 4 * kQuad);
        const __m256i products =
            Codes::kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(activations, code))
                           : _mm256_maddubs_epi16(code, activations);
        words[r] = kStep % kSpan == 0 ? products : _mm256_add_epi16(words[r], products);
        if constexpr (kStep % kSpan == kSpan - 1) {
          const __m256i wide = _mm256_madd_epi16(words[r], _mm256_set1_epi16(1));
          __m256i& sum = total[kStep / kPerSum][r];
          sum = kStep % kPerSum < kSpan ? wide : _mm256_add_epi32(sum, wide);
        }
      }
    }
    template <int... kSteps>
    void AddAll(const uint8_t* codes, const int8_t* const (&a)[R], std::integer_sequence<int, kSteps...>) {
      (Add<kSteps>(codes, a), ...);
    }
  };
  template <class Codes, int kSums, int R>
  static void Dot(const uint8_t* codes, const int8_t* const (&a)[R], I (&sums)[kSums][R]) {
    for (int half = 0; half < 2; ++half) {
      DotState<Codes, kSums, R> state;
      state.AddAll(codes + 32 * half, a, std::make_integer_sequence<int, 8>());
      for (int s = 0; s < kSums; ++s) {
        for (int r = 0; r < R; ++r) (half == 0 ? sums[s][r].a : sums[s][r].b) = state.total[s][r];
      }
    }
  }
};

}  // namespace spillway::cpu
