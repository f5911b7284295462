// From GGUF's blocks to the records of pack.h: one function per block layout, one row of the table per
// format.
#include "engine/cpu/pack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/base/half.h"
#include "engine/base/status.h"
#include "engine/quant/block_fields.h"

namespace spillway::cpu {
namespace {

void PutHalf(uint8_t* scales, uint32_t row, const uint8_t* half) { std::memcpy(scales + 2 * row, half, 2); }

// Writes the code of column `column` (0..31) into a zeroed code area of kBits bits.
template <uint32_t kBits>
void PutCode(uint8_t* codes, uint32_t row, uint32_t column, uint32_t value) {
  const uint32_t quad = column / 4;
  for (uint32_t width : {8u, 4u, 2u, 1u}) {
    if ((kBits & width) == 0) continue;
    const uint32_t part = value & ((1u << width) - 1);
    codes[64 * (quad % width) + 4 * row + column % 4] |= static_cast<uint8_t>(part << width * (quad / width));
    codes += 64 * width;
    value >>= width;
  }
}

// Nibble of column j in ggml's 32-wide layout: low halves first.
uint32_t SplitNibble(const uint8_t* nibbles, uint32_t column) {
  return column < 16 ? nibbles[column] & 15u : nibbles[column - 16] >> 4;
}

// Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL block: f16 scale (and minimum), the fifth bits of all 32 columns, nibbles.
template <uint32_t kHalves, uint32_t kBits>
void PackNibbles(const uint8_t* block, uint32_t row, uint8_t* record) {
  for (uint32_t i = 0; i < kHalves; ++i) PutHalf(record + 32 * i, row, block + 2 * i);
  block += 2 * kHalves;
  uint32_t fifth = 0;
  if constexpr (kBits == 5) {
    std::memcpy(&fifth, block, 4);
    block += 4;
  }
  for (uint32_t j = 0; j < 32; ++j) {
    PutCode<kBits>(record + 32 * kHalves, row, j, SplitNibble(block, j) | (fifth >> j & 1) << 4);
  }
}

void PackQ8_0(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  for (uint32_t j = 0; j < 32; ++j) PutCode<8>(record + 32, row, j, block[2 + j]);
}

// The exponent byte e of a block of doubled E2M1 values stands for 2^(e - 128): a bfloat16, subnormal at
// worst.
void PackMxfp4(const uint8_t* block, uint32_t row, uint8_t* record) {
  const uint16_t scale = F32ToBf16(std::ldexp(1.0f, block[0] - 128));
  std::memcpy(record + 2 * row, &scale, 2);
  for (uint32_t j = 0; j < 32; ++j) PutCode<4>(record + 32, row, j, SplitNibble(block + 1, j));
}

// Q2_K block: 16 bytes of scale and minimum nibbles of 16 columns each, 64 bytes of bit pairs, f16 d, f16
// dmin.
void PackQ2_K(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block + 80);
  PutHalf(record + 32, row, block + 82);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    uint8_t* out = record + 64 + sub * 160;
    out[row] = block[2 * sub];
    out[16 + row] = block[2 * sub + 1];
    const uint8_t* pairs = block + 16 + sub / 4 * 32;
    for (uint32_t j = 0; j < 32; ++j) PutCode<2>(out + 32, row, j, pairs[j] >> (2 * (sub % 4)) & 3u);
  }
}

// Q3_K block: 32 bytes of third bits, 64 of bit pairs, 12 of packed 6-bit scales of 16 columns each, f16 d.
void PackQ3_K(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block + 108);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    uint8_t* out = record + 32 + sub * 224;
    for (uint32_t half = 0; half < 2; ++half) {
      out[16 * half + row] = static_cast<uint8_t>(Q3Scale(block + 96, static_cast<int>(2 * sub + half)));
    }
    const uint8_t* pairs = block + 32 + sub / 4 * 32;
    for (uint32_t j = 0; j < 32; ++j) {
      PutCode<3>(out + 32, row, j, (pairs[j] >> (2 * (sub % 4)) & 3u) | (block[j] >> sub & 1u) << 2);
    }
  }
}

// Q4_K Q5_K block: f16 d, f16 dmin, 12 bytes of packed 6-bit scales and minimums, Q5_K's 32 bytes of fifth
// bits, 128 bytes of nibbles (64 columns per 32).
template <uint32_t kBits>
void PackQ45_K(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  PutHalf(record + 32, row, block + 2);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    uint8_t* out = record + 64 + sub * (32 + 64 * kBits);
    const ScaleMin packed = PackedScaleMin(block + 4, static_cast<int>(sub));
    out[row] = static_cast<uint8_t>(packed.scale);
    out[16 + row] = static_cast<uint8_t>(packed.min);
    const uint8_t* nibbles = block + (kBits == 5 ? 48 : 16) + sub / 2 * 32;
    for (uint32_t j = 0; j < 32; ++j) {
      const uint32_t fifth = kBits == 5 ? block[16 + j] >> sub & 1u : 0;
      PutCode<kBits>(out + 32, row, j, (nibbles[j] >> (4 * (sub % 2)) & 15u) | fifth << 4);
    }
  }
}

// Q6_K block: 128 bytes of low nibbles, 64 of high bit pairs, 16 int8 scales of 16 columns each, f16 d.
void PackQ6_K(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block + 208);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    uint8_t* out = record + 32 + sub * 416;
    out[row] = block[192 + 2 * sub];
    out[16 + row] = block[192 + 2 * sub + 1];
    const uint8_t* low = block + sub / 4 * 64 + sub % 2 * 32;
    const uint8_t* high = block + 128 + sub / 4 * 32;
    for (uint32_t j = 0; j < 32; ++j) {
      const uint32_t nibble = low[j] >> (4 * (sub % 4 / 2)) & 15u;
      PutCode<6>(out + 32, row, j, nibble | (high[j] >> (2 * (sub % 4)) & 3u) << 4);
    }
  }
}

// IQ4_XS block: f16 d, 2 + 4 bytes of packed 6-bit scales, 128 bytes of nibbles.
void PackIq4Xs(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    uint8_t* out = record + 32 + sub * 272;
    out[row] = static_cast<uint8_t>(Iq4XsScale(block, static_cast<int>(sub)));
    for (uint32_t j = 0; j < 32; ++j) PutCode<4>(out + 16, row, j, SplitNibble(block + 8 + 16 * sub, j));
  }
}

template <uint32_t kBytes>
void PackElement(const uint8_t* element, uint32_t row, uint8_t* record) {
  std::memcpy(record + kBytes * row, element, kBytes);
}

// Indexed by Packing. pack_row writes one row of one record from one block.
struct Recipe {
  TensorType type;
  void (*pack_row)(const uint8_t* block, uint32_t row, uint8_t* record);
};
constexpr std::array<Recipe, kPackings> kRecipes = {{
    {TensorType::kF32, PackElement<4>},
    {TensorType::kF16, PackElement<2>},
    {TensorType::kBF16, PackElement<2>},
    {TensorType::kQ4_0, PackNibbles<1, 4>},
    {TensorType::kQ4_1, PackNibbles<2, 4>},
    {TensorType::kQ5_0, PackNibbles<1, 5>},
    {TensorType::kQ5_1, PackNibbles<2, 5>},
    {TensorType::kQ8_0, PackQ8_0},
    {TensorType::kIQ4_NL, PackNibbles<1, 4>},
    {TensorType::kMXFP4, PackMxfp4},
    {TensorType::kQ2_K, PackQ2_K},
    {TensorType::kQ3_K, PackQ3_K},
    {TensorType::kQ4_K, PackQ45_K<4>},
    {TensorType::kQ5_K, PackQ45_K<5>},
    {TensorType::kQ6_K, PackQ6_K},
    {TensorType::kIQ4_XS, PackIq4Xs},
}};

}  // namespace

Packing PackingOf(TensorType type) {
  const auto* recipe =
      std::find_if(kRecipes.begin(), kRecipes.end(), [type](const Recipe& r) { return r.type == type; });
  SPILLWAY_CHECK(recipe != kRecipes.end());
  return static_cast<Packing>(recipe - kRecipes.begin());
}

uint64_t PackedGroupBytes(Packing packing, uint64_t n_in) {
  const RecordShape shape = kRecordShapes[static_cast<size_t>(packing)];
  return n_in / shape.columns * shape.bytes;
}

uint64_t PackedBytes(Packing packing, uint64_t n_out, uint64_t n_in) {
  return (n_out + kGroupRows - 1) / kGroupRows * PackedGroupBytes(packing, n_in);
}

void PackMatrix(TensorType type, std::span<const std::byte> rows, uint32_t n_out, uint32_t n_in,
                std::byte* out) {
  const Packing packing = PackingOf(type);
  const FormatInfo& format = FormatOf(type);
  const RecordShape shape = kRecordShapes[static_cast<size_t>(packing)];
  SPILLWAY_CHECK(n_in % shape.columns == 0 && shape.columns == format.block_elements);
  const uint64_t records = n_in / shape.columns;
  const uint64_t group_bytes = records * shape.bytes;
  const auto pack_row = kRecipes[static_cast<size_t>(packing)].pack_row;
  std::memset(out, 0, PackedBytes(packing, n_out, n_in));
  const auto* source = reinterpret_cast<const uint8_t*>(rows.data());
  for (uint64_t row = 0; row < n_out; ++row) {
    auto* record = reinterpret_cast<uint8_t*>(out) + row / kGroupRows * group_bytes;
    for (uint64_t i = 0; i < records; ++i, source += format.block_bytes, record += shape.bytes) {
      pack_row(source, row % kGroupRows, record);
    }
  }
}

}  // namespace spillway::cpu
