// The host's weight layout: 16 rows interleaved, so that a SIMD lane is an output row. Decode (one activation
// row) and prefill (many) read the same bytes and add in the same order (docs/numerics.md), on every ISA
// level.
//
// A matrix is a run of groups of 16 rows (the last padded with zeros); a group is a run of records along
// n_in:
//   floats        per column: 16 elements
//   32-wide       per 32 columns:  scales [16 f16] (mins [16 f16]) codes
//   K-quants      per 256 columns: d [16 f16] (dmin [16 f16]), then per 32 columns: sub-scales, codes
// Codes of 32 columns are quads (4 columns of one row, 4 bytes): quad q holds columns 4q..4q+3.
//   4 bit: 4 x 64 bytes; byte i of chunk c: low nibble = quad c, high nibble = quad c+4, row i/4, column i%4
//   6 bit: as 4 bit, then 2 x 64 bytes of high bits: bits 2c..2c+1 of chunk h = quad 4h+c
//   8 bit: 8 x 64 bytes; chunk q = quad q, signed
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/quant/formats.h"

namespace spillway::cpu {

inline constexpr uint32_t kGroupRows = 16;
inline constexpr uint32_t kBlockColumns = 32;

enum class Packing : uint8_t { kF32, kF16, kBF16, kQ4Scale, kQ4ScaleMin, kQ8Scale, kQ4K, kQ6K };
inline constexpr size_t kPackings = 8;

struct PackedMatrix {
  Packing packing = Packing::kF32;
  uint32_t n_out = 0;
  uint32_t n_in = 0;
  const std::byte* data = nullptr;  // (groups, group_bytes), 64-byte aligned
  uint64_t group_bytes = 0;

  uint32_t Groups() const { return (n_out + kGroupRows - 1) / kGroupRows; }
  bool Quantized() const { return packing > Packing::kBF16; }
};

// The packing of a weight format; Unimplemented names a format that the host backend does not compute with.
absl::StatusOr<Packing> PackingOf(TensorType type);
// Bytes of one group of 16 rows with n_in columns.
uint64_t PackedGroupBytes(Packing packing, uint64_t n_in);
uint64_t PackedBytes(Packing packing, uint64_t n_out, uint64_t n_in);

// Lays out `rows` (n_out x n_in in GGUF's row-major blocks of `type`) into `out` (PackedBytes).
void PackMatrix(TensorType type, std::span<const std::byte> rows, uint32_t n_out, uint32_t n_in,
                std::byte* out);

}  // namespace spillway::cpu
