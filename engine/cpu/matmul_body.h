// Bodies of the matrix products over a 16-lane type V. A lane is an output row; blocks are added in ascending
// order to one accumulator, so the number of activation rows, threads and the ISA level cannot change a bit
// (docs/numerics.md).
#pragma once

#include <cstdint>

#include "engine/cpu/kernels.h"

namespace spillway::cpu {

// How a float matrix is read: element bytes and widening.
template <class V>
struct FloatF32 {
  using Element = float;
  static typename V::F Load(const Element* p) { return V::Load(p); }
};
template <class V>
struct FloatF16 {
  using Element = uint16_t;
  static typename V::F Load(const Element* p) { return V::LoadF16(p); }
};
template <class V>
struct FloatBf16 {
  using Element = uint16_t;
  static typename V::F Load(const Element* p) { return V::LoadBf16(p); }
};

// How a quantized record is added: kColumns columns and kBytes bytes for 16 rows, R activation rows at once.
// Per block of 32: u = fma(outlier, code[column], scale * dot); acc = fma(D, u, acc); with minimums acc =
// fma(M, total, acc).
template <class V>
typename V::F BlockSum(typename V::I dot, typename V::I outlier_code, const ActivationBlock& block) {
  return V::Fma(V::Set1(block.outlier), V::ToFloat(outlier_code),
                V::Mul(V::Set1(block.scale), V::ToFloat(dot)));
}

// The same from the sum over raw codes of a whole block.
template <class V, class Codes>
typename V::F BlockSumOf(const uint8_t* codes, typename V::I sum, const ActivationBlock& block) {
  return BlockSum<V>(V::SubI(sum, Codes::kCenter * (block.sum_low + block.sum_high)),
                     V::SubI(V::template Column<Codes>(codes, block.column), Codes::kCenter), block);
}

// 32 columns with a scale of their own: D q (+ M).
template <class V, class Codes, bool kMin = false, class Scale = FloatF16<V>>
struct Record32 {
  static constexpr uint32_t kColumns = 32, kCodes = kMin ? 64 : 32, kBytes = kCodes + 64 * Codes::kBits;
  template <int R>
  static void Add(const uint8_t* record, const int8_t* const (&a)[R], const ActivationBlock* const (&meta)[R],
                  typename V::F (&acc)[R]) {
    const auto* halves = reinterpret_cast<const uint16_t*>(record);
    const auto d = Scale::Load(halves);
    const auto min = kMin ? V::LoadF16(halves + kGroupRows) : V::Zero();
    typename V::I dot[1][R];
    V::template Dot<Codes>(record + kCodes, a, dot);
    for (int r = 0; r < R; ++r) {
      acc[r] = V::Fma(d, BlockSumOf<V, Codes>(record + kCodes, dot[0][r], *meta[r]), acc[r]);
      if constexpr (kMin) acc[r] = V::Fma(min, V::Set1(meta[r]->total), acc[r]);
    }
  }
};

// 256 columns, per 32 of them a 6-bit scale: (d s) q (- (dmin m)); both products are exact in float32.
template <class V, class Codes, bool kMin>
struct SubScaled32 {
  static constexpr uint32_t kHead = kMin ? 64 : 32, kCodes = kMin ? 32 : 16;
  static constexpr uint32_t kPart = kCodes + 64 * Codes::kBits;
  static constexpr uint32_t kColumns = 256, kBytes = kHead + 8 * kPart;
  template <int R>
  static void Add(const uint8_t* record, const int8_t* const (&a)[R], const ActivationBlock* const (&meta)[R],
                  typename V::F (&acc)[R]) {
    const auto* halves = reinterpret_cast<const uint16_t*>(record);
    const auto d = V::LoadF16(halves);
    const auto dmin = kMin ? V::LoadF16(halves + kGroupRows) : V::Zero();
    for (uint32_t sub = 0; sub < 8; ++sub) {
      const uint8_t* part = record + kHead + sub * kPart;
      const auto scale = V::Mul(d, V::ToFloat(V::LoadI8(part)));
      const auto min = kMin ? V::Mul(dmin, V::ToFloat(V::LoadI8(part + 16))) : V::Zero();
      const int8_t* block[R];
      for (int r = 0; r < R; ++r) block[r] = a[r] + 32 * sub;
      typename V::I dot[1][R];
      V::template Dot<Codes>(part + kCodes, block, dot);
      for (int r = 0; r < R; ++r) {
        const ActivationBlock& m = meta[r][sub];
        acc[r] = V::Fma(scale, BlockSumOf<V, Codes>(part + kCodes, dot[0][r], m), acc[r]);
        if constexpr (kMin) acc[r] = V::Fnma(min, V::Set1(m.total), acc[r]);
      }
    }
  }
};

// 256 columns, per 16 of them a scale (and a minimum): d s q (- dmin m). The two halves of 32 columns are
// added as integers (below 2^24).
template <class V, class Codes, bool kMin>
struct SubScaled16 {
  static constexpr uint32_t kHead = kMin ? 64 : 32, kCodes = 32;
  static constexpr uint32_t kPart = kCodes + 64 * Codes::kBits;
  static constexpr uint32_t kColumns = 256, kBytes = kHead + 8 * kPart;
  using I = typename V::I;

  static I Halves(I low_factor, I low, I high_factor, I high) {
    return V::AddI(V::MulI(low_factor, low), V::MulI(high_factor, high));
  }
  template <int R>
  static void Add(const uint8_t* record, const int8_t* const (&a)[R], const ActivationBlock* const (&meta)[R],
                  typename V::F (&acc)[R]) {
    const auto* halves = reinterpret_cast<const uint16_t*>(record);
    const auto d = V::LoadF16(halves);
    const auto dmin = kMin ? V::LoadF16(halves + kGroupRows) : V::Zero();
    for (uint32_t sub = 0; sub < 8; ++sub) {
      const uint8_t* part = record + kHead + sub * kPart;
      const I scale_low = kMin ? V::LoadU4(part, 0) : V::LoadI8(part);
      const I scale_high = kMin ? V::LoadU4(part + 16, 0) : V::LoadI8(part + 16);
      const int8_t* block[R];
      for (int r = 0; r < R; ++r) block[r] = a[r] + 32 * sub;
      I dot[2][R];
      V::template Dot<Codes>(part + kCodes, block, dot);
      for (int r = 0; r < R; ++r) {
        const ActivationBlock& m = meta[r][sub];
        const I sum = Halves(scale_low, V::SubI(dot[0][r], Codes::kCenter * m.sum_low), scale_high,
                             V::SubI(dot[1][r], Codes::kCenter * m.sum_high));
        const I code = V::MulI(m.column < 16 ? scale_low : scale_high,
                               V::SubI(V::template Column<Codes>(part + kCodes, m.column), Codes::kCenter));
        acc[r] = V::Fma(d, BlockSum<V>(sum, code, m), acc[r]);
        if constexpr (kMin) {
          const I min_low = V::LoadU4(part, 4), min_high = V::LoadU4(part + 16, 4);
          const I min_sum = Halves(min_low, V::Set1I(m.sum_low), min_high, V::Set1I(m.sum_high));
          const auto min = BlockSum<V>(min_sum, m.column < 16 ? min_low : min_high, m);
          acc[r] = V::Fnma(dmin, min, acc[r]);
        }
      }
    }
  }
};

// How far ahead of the sums a record is asked for where it is read once: more than half of a page, since the
// hardware stops at the page's end. SmolLM2's decode on one Zen 3 core: 7.3 ms a token without, 6.0 with; 4
// KiB 6.5, 8 KiB 6.7, into all levels of cache (4 KiB) 6.9.
inline constexpr uint32_t kReadAhead = 2048;

template <class V>
struct MatmulBody {
  using F = typename V::F;

  static void Finish(const MatmulArgs& args, uint32_t row, uint32_t group, F sum) {
    const uint64_t column = uint64_t{group} * kGroupRows;
    if (args.bias != nullptr) sum = V::Add(sum, V::Load(args.bias + column));
    float* y = args.y + row * args.y_stride + column;
    if (args.accumulate) sum = V::Add(V::Load(y), sum);
    V::Store(y, sum);
  }

  // Flattened: one call left in here costs more than the sums around it.
  template <class Record, int R>
  [[gnu::flatten]] static void QuantizedTile(const MatmulArgs& args, uint32_t group, uint32_t row) {
    const QuantizedRows& q = *args.quantized;
    const auto* record = reinterpret_cast<const uint8_t*>(args.w->data) + group * args.w->group_bytes;
    const int8_t* codes[R];
    const ActivationBlock* meta[R];
    F acc[R];
    for (int r = 0; r < R; ++r) {
      codes[r] = q.codes + (row + r) * q.code_stride;
      meta[r] = q.blocks + (row + r) * (q.code_stride / kBlockColumns);
      acc[r] = V::Zero();
    }
    const bool read_once = args.rows == R;  // else the next tile wants it from the cache
    for (uint32_t column = 0; column < args.w->n_in; column += Record::kColumns) {
      if (read_once) {
        for (uint32_t line = 0; line < Record::kBytes; line += 64) {
          __builtin_prefetch(record + kReadAhead + line, /*write=*/0, /*locality=*/0);
        }
      }
      Record::template Add<R>(record, codes, meta, acc);
      record += Record::kBytes;
      for (int r = 0; r < R; ++r) {
        codes[r] += Record::kColumns;
        meta[r] += Record::kColumns / kBlockColumns;
      }
    }
    for (int r = 0; r < R; ++r) Finish(args, row + r, group, acc[r]);
  }

  template <class Record>
  static void Quantized(const MatmulArgs& args, uint32_t group_begin, uint32_t group_end) {
    for (uint32_t group = group_begin; group < group_end; ++group) {
      uint32_t row = 0;
      for (; row + 4 <= args.rows; row += 4) QuantizedTile<Record, 4>(args, group, row);
      if (args.rows - row == 3) QuantizedTile<Record, 3>(args, group, row);
      if (args.rows - row == 2) QuantizedTile<Record, 2>(args, group, row);
      if (args.rows - row == 1) QuantizedTile<Record, 1>(args, group, row);
    }
  }

  // Four partial sums by column mod 4, combined (0+1)+(2+3).
  template <class Format, int R>
  static void FloatTile(const MatmulArgs& args, uint32_t group, uint32_t row) {
    const auto* w =
        reinterpret_cast<const typename Format::Element*>(args.w->data + group * args.w->group_bytes);
    const float* x[R];
    F acc[R][4];
    for (int r = 0; r < R; ++r) {
      x[r] = args.x + (row + r) * args.x_stride;
      for (int p = 0; p < 4; ++p) acc[r][p] = V::Zero();
    }
    const uint32_t n_in = args.w->n_in;
    uint32_t column = 0;
    for (; column + 4 <= n_in; column += 4) {
      for (int p = 0; p < 4; ++p) {
        const F weight = Format::Load(w + uint64_t{column + p} * kGroupRows);
        for (int r = 0; r < R; ++r) acc[r][p] = V::Fma(weight, V::Set1(x[r][column + p]), acc[r][p]);
      }
    }
    for (int p = 0; column < n_in; ++column, ++p) {
      const F weight = Format::Load(w + uint64_t{column} * kGroupRows);
      for (int r = 0; r < R; ++r) acc[r][p] = V::Fma(weight, V::Set1(x[r][column]), acc[r][p]);
    }
    for (int r = 0; r < R; ++r) {
      Finish(args, row + r, group, V::Add(V::Add(acc[r][0], acc[r][1]), V::Add(acc[r][2], acc[r][3])));
    }
  }

  template <class Format>
  static void Float(const MatmulArgs& args, uint32_t group_begin, uint32_t group_end) {
    for (uint32_t group = group_begin; group < group_end; ++group) {
      uint32_t row = 0;
      for (; row + 2 <= args.rows; row += 2) FloatTile<Format, 2>(args, group, row);
      if (row < args.rows) FloatTile<Format, 1>(args, group, row);
    }
  }
};

}  // namespace spillway::cpu
