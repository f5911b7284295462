// The host's weight layout: 16 rows interleaved, so that a SIMD lane is an output row. Decode (one activation
// row) and prefill (many) read the same bytes and add in the same order (docs/numerics.md), on every ISA
// level.
//
// A matrix is a run of groups of 16 rows (the last padded with zeros); a group is a run of records along
// n_in:
//   floats        per column: 16 elements
//   32-wide       per 32 columns:  scales [16 f16; MXFP4 bf16] (mins [16 f16]) codes
//   256-wide      per 256 columns: d [16 f16] (dmin [16 f16]), then per 32 columns: sub-scales, codes
//     Q4_K Q5_K   scales [16], mins [16]        IQ4_XS  scales [16]
//     Q3_K Q6_K   scales of columns 0..15 [16], of 16..31 [16]
//     Q2_K        the same; scale in the low nibble, min in the high one
// Codes of 32 columns are 8 quads (4 columns of one row, 4 bytes): quad q holds columns 4q..4q+3. An n-bit
// code is cut, lowest bits first, into planes of 8, 4, 2 and 1 bits that add up to n. A plane of w bits is w
// chunks of 64 bytes: byte i of chunk c belongs to row i/4, column i%4 of the quad; its bits from w*p on are
// quad w*p + c. So 4 bits are 4 chunks, low nibble = quad c, high nibble = quad c+4; 8 bits are 8 chunks of
// bytes.
//
// Bits per weight, in the file and here: equal but for Q3_K 3.44 -> 3.56, Q4_K 4.5 -> 4.63, Q5_K 5.5 -> 5.63,
// IQ4_XS 4.25 -> 4.31, MXFP4 4.25 -> 4.5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/quant/formats.h"

namespace spillway::cpu {

inline constexpr uint32_t kGroupRows = 16;
inline constexpr uint32_t kBlockColumns = 32;

// One per weight format, numbered densely; floats first.
enum class Packing : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kIQ4_NL,
  kMXFP4,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_XS
};
inline constexpr size_t kPackings = 16;

// (columns, bytes for 16 rows) of a record.
struct RecordShape {
  uint32_t columns;
  uint32_t bytes;
};
inline constexpr std::array<RecordShape, kPackings> kRecordShapes = {{
    {1, 64},                        // F32
    {1, 32},                        // F16
    {1, 32},                        // BF16
    {32, 32 + 4 * 64},              // Q4_0
    {32, 64 + 4 * 64},              // Q4_1
    {32, 32 + 5 * 64},              // Q5_0
    {32, 64 + 5 * 64},              // Q5_1
    {32, 32 + 8 * 64},              // Q8_0
    {32, 32 + 4 * 64},              // IQ4_NL
    {32, 32 + 4 * 64},              // MXFP4
    {256, 64 + 8 * (32 + 2 * 64)},  // Q2_K
    {256, 32 + 8 * (32 + 3 * 64)},  // Q3_K
    {256, 64 + 8 * (32 + 4 * 64)},  // Q4_K
    {256, 64 + 8 * (32 + 5 * 64)},  // Q5_K
    {256, 32 + 8 * (32 + 6 * 64)},  // Q6_K
    {256, 32 + 8 * (16 + 4 * 64)},  // IQ4_XS
}};

struct PackedMatrix {
  Packing packing = Packing::kF32;
  uint32_t n_out = 0;
  uint32_t n_in = 0;
  const std::byte* data = nullptr;  // (groups, group_bytes), 64-byte aligned
  uint64_t group_bytes = 0;

  uint32_t Groups() const { return (n_out + kGroupRows - 1) / kGroupRows; }
  bool Quantized() const { return packing > Packing::kBF16; }
};

Packing PackingOf(TensorType type);
// Bytes of one group of 16 rows with n_in columns.
uint64_t PackedGroupBytes(Packing packing, uint64_t n_in);
uint64_t PackedBytes(Packing packing, uint64_t n_out, uint64_t n_in);

// Lays out `rows` (n_out x n_in in GGUF's row-major blocks of `type`) into `out` (PackedBytes).
void PackMatrix(TensorType type, std::span<const std::byte> rows, uint32_t n_out, uint32_t n_in,
                std::byte* out);

}  // namespace spillway::cpu
