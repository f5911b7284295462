// The one table of weight formats, and the names of every ggml type for error messages.
#include "engine/quant/formats.h"

#include <array>

#include "engine/base/status.h"
#include "engine/quant/dequantize.h"

namespace spillway {
namespace {

// Sorted by type id.
constexpr std::array<FormatInfo, 16> kFormats = {{
    {TensorType::kF32, "F32", 1, 4, dequantize::F32},
    {TensorType::kF16, "F16", 1, 2, dequantize::F16},
    {TensorType::kQ4_0, "Q4_0", 32, 18, dequantize::Q4_0},
    {TensorType::kQ4_1, "Q4_1", 32, 20, dequantize::Q4_1},
    {TensorType::kQ5_0, "Q5_0", 32, 22, dequantize::Q5_0},
    {TensorType::kQ5_1, "Q5_1", 32, 24, dequantize::Q5_1},
    {TensorType::kQ8_0, "Q8_0", 32, 34, dequantize::Q8_0},
    {TensorType::kQ2_K, "Q2_K", 256, 84, dequantize::Q2_K},
    {TensorType::kQ3_K, "Q3_K", 256, 110, dequantize::Q3_K},
    {TensorType::kQ4_K, "Q4_K", 256, 144, dequantize::Q4_K},
    {TensorType::kQ5_K, "Q5_K", 256, 176, dequantize::Q5_K},
    {TensorType::kQ6_K, "Q6_K", 256, 210, dequantize::Q6_K},
    {TensorType::kIQ4_NL, "IQ4_NL", 32, 18, dequantize::IQ4_NL},
    {TensorType::kIQ4_XS, "IQ4_XS", 256, 136, dequantize::IQ4_XS},
    {TensorType::kBF16, "BF16", 1, 2, dequantize::BF16},
    {TensorType::kMXFP4, "MXFP4", 32, 17, dequantize::MXFP4},
}};

// Indexed by ggml type id; empty where ggml has retired the id.
constexpr std::array<std::string_view, 42> kGgmlNames = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0"};
static_assert(kGgmlNames[30] == "BF16" && kGgmlNames[39] == "MXFP4");

}  // namespace

const FormatInfo* FindFormat(uint32_t type_id) {
  for (const FormatInfo& format : kFormats) {
    if (static_cast<uint32_t>(format.type) == type_id) return &format;
  }
  return nullptr;
}

const FormatInfo& FormatOf(TensorType type) {
  const FormatInfo* format = FindFormat(static_cast<uint32_t>(type));
  SPILLWAY_CHECK(format != nullptr);
  return *format;
}

std::span<const FormatInfo> AllFormats() { return kFormats; }

std::string GgmlTypeName(uint32_t type_id) {
  if (type_id < kGgmlNames.size() && !kGgmlNames[type_id].empty()) return std::string(kGgmlNames[type_id]);
  return fmt::format("type {}", type_id);
}

std::optional<uint64_t> FormatBytes(TensorType type, uint64_t row_elements, uint64_t rows) {
  const FormatInfo& format = FormatOf(type);
  if (row_elements % format.block_elements != 0) return std::nullopt;
  uint64_t row_bytes = 0;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(row_elements / format.block_elements, uint64_t{format.block_bytes},
                             &row_bytes) ||
      __builtin_mul_overflow(row_bytes, rows, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace spillway
