// The table of weight formats: one row per GGUF tensor type that Spillway reads. Block layouts are
// little-endian and unpadded (ggml's block structures). Row functions here are the exact reference; SIMD
// lives in engine/cpu.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

// Values are the type ids stored in GGUF files.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct FormatInfo {
  TensorType type;
  std::string_view name;    // "Q4_K"
  uint32_t block_elements;  // 1, 32 or 256
  uint32_t block_bytes;
  // Dequantizes `elements` (a multiple of block_elements) from `in` into `out`; exact in float32.
  void (*dequantize)(const std::byte* in, float* out, uint64_t elements);
};

// nullptr for a type id that is not in the table.
const FormatInfo* FindFormat(uint32_t type_id);
const FormatInfo& FormatOf(TensorType type);
std::span<const FormatInfo> AllFormats();
// Name of any ggml type id, also of those not supported ("IQ2_XS"), for error messages; "type 99" when
// unknown.
std::string GgmlTypeName(uint32_t type_id);

// Bytes of `rows` rows of `row_elements`; nullopt on overflow or when row_elements is not a multiple of the
// block.
std::optional<uint64_t> FormatBytes(TensorType type, uint64_t row_elements, uint64_t rows);

}  // namespace spillway
