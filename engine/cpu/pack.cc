#include "engine/cpu/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/status.h"

namespace spillway::cpu {
namespace {

constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

// How a record is built: columns it covers, its bytes for 16 rows, and the function that writes one row of
// it.
struct Recipe {
  TensorType type;
  Packing packing;
  void (*pack_row)(const uint8_t* block, uint32_t row, uint8_t* record);
};

void PutHalf(uint8_t* scales, uint32_t row, const uint8_t* half) { std::memcpy(scales + 2 * row, half, 2); }

// Writes code `value` (0..15) of column `column` into a 4-bit code area.
void PutNibble(uint8_t* codes, uint32_t row, uint32_t column, uint8_t value) {
  const uint32_t chunk = column % 16 / 4;
  codes[64 * chunk + 4 * row + column % 4] |= static_cast<uint8_t>(column < 16 ? value : value << 4);
}

void PutByte(uint8_t* codes, uint32_t row, uint32_t column, int8_t value) {
  codes[64 * (column / 4) + 4 * row + column % 4] = static_cast<uint8_t>(value);
}

// Nibble of column j in ggml's 32-wide layout: low halves first.
uint8_t SplitNibble(const uint8_t* nibbles, uint32_t column) {
  return column < 16 ? nibbles[column] & 15 : nibbles[column - 16] >> 4;
}

void PackQ4_0(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  for (uint32_t j = 0; j < 32; ++j) PutNibble(record + 32, row, j, SplitNibble(block + 2, j));
}

void PackQ4_1(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  PutHalf(record + 32, row, block + 2);
  for (uint32_t j = 0; j < 32; ++j) PutNibble(record + 64, row, j, SplitNibble(block + 4, j));
}

void PackQ8_0(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  for (uint32_t j = 0; j < 32; ++j) PutByte(record + 32, row, j, static_cast<int8_t>(block[2 + j]));
}

void PackQ5_0(const uint8_t* block, uint32_t row, uint8_t* record) {
  uint32_t high;
  std::memcpy(&high, block + 2, 4);
  PutHalf(record, row, block);
  for (uint32_t j = 0; j < 32; ++j) {
    const int code = SplitNibble(block + 6, j) | ((high >> j & 1) << 4);
    PutByte(record + 32, row, j, static_cast<int8_t>(code - 16));
  }
}

void PackIq4Nl(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  for (uint32_t j = 0; j < 32; ++j) PutByte(record + 32, row, j, kIq4Values[SplitNibble(block + 2, j)]);
}

// Q4_K block: f16 d, f16 dmin, 12 bytes of packed 6-bit scales and mins, 128 bytes of nibbles (64 columns per
// 32).
void PackQ4_K(const uint8_t* block, uint32_t row, uint8_t* record) {
  PutHalf(record, row, block);
  PutHalf(record + 32, row, block + 2);
  const uint8_t* packed = block + 4;
  const uint8_t* nibbles = block + 16;
  for (uint32_t sub = 0; sub < 8; ++sub) {
    uint8_t* out = record + 64 + sub * 288;
    const uint32_t k = sub % 4;
    const uint8_t scale = sub < 4 ? packed[k] & 63 : (packed[k + 8] & 15) | (packed[k] >> 6 << 4);
    const uint8_t min = sub < 4 ? packed[k + 4] & 63 : packed[k + 8] >> 4 | (packed[k + 4] >> 6 << 4);
    out[row] = scale;
    out[16 + row] = min;
    const uint8_t* source = nibbles + sub / 2 * 32;
    for (uint32_t j = 0; j < 32; ++j) {
      PutNibble(out + 32, row, j, sub % 2 == 0 ? source[j] & 15 : source[j] >> 4);
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
      const uint8_t nibble = sub % 4 < 2 ? low[j] & 15 : low[j] >> 4;
      const uint8_t pair = high[j] >> (2 * (sub % 4)) & 3;
      PutNibble(out + 32, row, j, nibble);
      out[32 + 256 + 64 * (j / 16) + 4 * row + j % 4] |= static_cast<uint8_t>(pair << (2 * (j % 16 / 4)));
    }
  }
}

void PackF32(const uint8_t* element, uint32_t row, uint8_t* record) {
  std::memcpy(record + 4 * row, element, 4);
}
void PackF16(const uint8_t* element, uint32_t row, uint8_t* record) {
  std::memcpy(record + 2 * row, element, 2);
}

constexpr std::array kRecipes = {
    Recipe{TensorType::kF32, Packing::kF32, PackF32},
    Recipe{TensorType::kF16, Packing::kF16, PackF16},
    Recipe{TensorType::kBF16, Packing::kBF16, PackF16},
    Recipe{TensorType::kQ4_0, Packing::kQ4Scale, PackQ4_0},
    Recipe{TensorType::kQ4_1, Packing::kQ4ScaleMin, PackQ4_1},
    Recipe{TensorType::kQ8_0, Packing::kQ8Scale, PackQ8_0},
    Recipe{TensorType::kQ5_0, Packing::kQ8Scale, PackQ5_0},
    Recipe{TensorType::kIQ4_NL, Packing::kQ8Scale, PackIq4Nl},
    Recipe{TensorType::kQ4_K, Packing::kQ4K, PackQ4_K},
    Recipe{TensorType::kQ6_K, Packing::kQ6K, PackQ6_K},
};

const Recipe* FindRecipe(TensorType type) {
  const auto it =
      std::find_if(kRecipes.begin(), kRecipes.end(), [type](const Recipe& r) { return r.type == type; });
  return it == kRecipes.end() ? nullptr : &*it;
}

// (columns, bytes for 16 rows) of a record.
struct RecordShape {
  uint32_t columns;
  uint32_t bytes;
};
constexpr std::array<RecordShape, kPackings> kRecordShapes = {{
    {1, 64},                           // kF32
    {1, 32},                           // kF16
    {1, 32},                           // kBF16
    {32, 32 + 256},                    // kQ4Scale
    {32, 64 + 256},                    // kQ4ScaleMin
    {32, 32 + 512},                    // kQ8Scale
    {256, 64 + 8 * (32 + 256)},        // kQ4K
    {256, 32 + 8 * (32 + 256 + 128)},  // kQ6K
}};

}  // namespace

absl::StatusOr<Packing> PackingOf(TensorType type) {
  if (const Recipe* recipe = FindRecipe(type)) return recipe->packing;
  std::string supported;
  for (const Recipe& recipe : kRecipes) supported += fmt::format(" {}", FormatOf(recipe.type).name);
  return Unimplemented("the host backend does not compute with {} weights; supported:{}", FormatOf(type).name,
                       supported);
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
  const Recipe* recipe = FindRecipe(type);
  SPILLWAY_CHECK(recipe != nullptr);
  const FormatInfo& format = FormatOf(type);
  const RecordShape shape = kRecordShapes[static_cast<size_t>(recipe->packing)];
  SPILLWAY_CHECK(n_in % shape.columns == 0 && shape.columns == format.block_elements);
  const uint64_t records = n_in / shape.columns;
  const uint64_t group_bytes = records * shape.bytes;
  std::memset(out, 0, PackedBytes(recipe->packing, n_out, n_in));
  const auto* source = reinterpret_cast<const uint8_t*>(rows.data());
  for (uint64_t row = 0; row < n_out; ++row) {
    auto* record = reinterpret_cast<uint8_t*>(out) + row / kGroupRows * group_bytes;
    for (uint64_t i = 0; i < records; ++i, source += format.block_bytes, record += shape.bytes) {
      recipe->pack_row(source, row % kGroupRows, record);
    }
  }
}

}  // namespace spillway::cpu
