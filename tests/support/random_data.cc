// Random blocks need to know where each format keeps its scales; a format missing here fails the check.
#include "tests/support/random_data.h"

#include "engine/base/half.h"
#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/quant/quantize.h"

namespace spillway::test {
namespace {

// Offsets of the f16 scales inside a block.
std::vector<size_t> HalfOffsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kQ5_0:
    case TensorType::kQ8_0:
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return {0};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

// Blocks of `bytes`, but for f16 scales of moderate size (MXFP4: exponents around 1).
std::vector<std::byte> WithScales(TensorType type, const std::vector<uint8_t>& bytes, uint64_t seed) {
  const FormatInfo& format = FormatOf(type);
  std::vector<std::byte> blocks(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) blocks[i] = static_cast<std::byte>(bytes[i]);
  const std::vector<size_t> offsets = HalfOffsets(type);
  SPILLWAY_CHECK(!offsets.empty() || type == TensorType::kMXFP4);
  for (size_t block = 0; block * format.block_bytes < blocks.size(); ++block) {
    std::byte* begin = blocks.data() + block * format.block_bytes;
    for (const size_t offset : offsets) {
      const uint16_t half =
          F32ToF16(static_cast<float>(UniformDraw(seed, 2, block * 4 + offset) - 0.5) * 0.05f);
      begin[offset] = static_cast<std::byte>(half & 0xff);
      begin[offset + 1] = static_cast<std::byte>(half >> 8);
    }
    if (type == TensorType::kMXFP4) begin[0] = static_cast<std::byte>(120 + bytes[block] % 10);
  }
  return blocks;
}

uint64_t BlockBytes(TensorType type, uint64_t elements) {
  const FormatInfo& format = FormatOf(type);
  SPILLWAY_CHECK(elements % format.block_elements == 0);
  return elements / format.block_elements * format.block_bytes;
}

}  // namespace

std::vector<float> RandomFloats(size_t count, uint64_t seed, float low, float high) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = low + static_cast<float>(UniformDraw(seed, 0, i)) * (high - low);
  }
  return values;
}

std::vector<uint8_t> RandomBytes(size_t count, uint64_t seed) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(UniformDraw(seed, 1, i) * 256.0);
  return bytes;
}

std::vector<std::byte> RandomBlocks(TensorType type, uint64_t elements, uint64_t seed) {
  const uint64_t bytes = BlockBytes(type, elements);
  if (FormatOf(type).block_elements > 1) return WithScales(type, RandomBytes(bytes, seed), seed);
  std::vector<std::byte> blocks(bytes);
  FindQuantizer(type)->quantize(RandomFloats(elements, seed).data(), blocks.data(), elements);
  return blocks;
}

std::vector<std::byte> FilledBlocks(TensorType type, uint64_t elements, uint64_t seed, uint8_t fill) {
  return WithScales(type, std::vector<uint8_t>(BlockBytes(type, elements), fill), seed);
}

std::vector<float> Dequantize(TensorType type, const std::vector<std::byte>& blocks) {
  const FormatInfo& format = FormatOf(type);
  std::vector<float> values(blocks.size() / format.block_bytes * format.block_elements);
  format.dequantize(blocks.data(), values.data(), values.size());
  return values;
}

}  // namespace spillway::test
