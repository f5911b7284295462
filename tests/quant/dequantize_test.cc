// Dequantizers against golden blocks made by gguf-py (tests/quant/golden/make_dequantize.py), bit by bit: the
// float32 operations and their order are part of the format. The plain formats are checked against their
// definition.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/half.h"
#include "engine/quant/formats.h"
#include "tests/support/expect_close.h"
#include "tests/support/files.h"
#include "tests/support/random_data.h"

namespace spillway::test {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<float> FloatsFromHex(const std::string& hex) {
  const std::vector<std::byte> bytes = FromHex(hex);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Dequantize, MatchesGgufPyBitByBitInEveryBlockFormat) {
  const auto golden = nlohmann::json::parse(ReadFile("tests/quant/golden/dequantize.json"));
  for (const FormatInfo& format : AllFormats()) {
    if (format.block_elements == 1) continue;
    SCOPED_TRACE(format.name);
    const std::string name(format.name);
    ASSERT_TRUE(golden.contains(name));
    const std::vector<std::byte> blocks = FromHex(golden[name]["blocks"].get<std::string>());
    ExpectSameBits(Dequantize(format.type, blocks),
                   FloatsFromHex(golden[name]["float32"].get<std::string>()));
  }
}

TEST(Dequantize, ReadsBlocksAtAnyAddressAndWritesNothingBeyondItsElements) {
  for (const FormatInfo& format : AllFormats()) {
    SCOPED_TRACE(format.name);
    const uint64_t elements = 3 * format.block_elements;
    const std::vector<std::byte> blocks = RandomBlocks(format.type, elements, 3);
    const std::vector<float> expected = Dequantize(format.type, blocks);
    std::vector<std::byte> shifted(blocks.size() + 1);
    std::memcpy(shifted.data() + 1, blocks.data(), blocks.size());
    std::vector<float> out(elements + 2, 42.0f);
    format.dequantize(shifted.data() + 1, out.data() + 1, elements);
    ExpectSameBits(std::span(out).subspan(1, elements), expected);
    EXPECT_EQ(out.front(), 42.0f);
    EXPECT_EQ(out.back(), 42.0f);
    format.dequantize(nullptr, nullptr, 0);
  }
}

TEST(Dequantize, ConvertsEveryHalfAndBfloatValue) {
  std::vector<std::byte> in(2 * 65536);
  for (uint32_t i = 0; i < 65536; ++i) {
    in[2 * i] = static_cast<std::byte>(i & 0xff);
    in[2 * i + 1] = static_cast<std::byte>(i >> 8);
  }
  const std::vector<float> halves = Dequantize(TensorType::kF16, in);
  const std::vector<float> bfloats = Dequantize(TensorType::kBF16, in);
  for (uint32_t i = 0; i < 65536; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bfloats[i], sizeof(bits));
    ASSERT_EQ(bits, i << 16);
    _Float16 native;
    const uint16_t half = static_cast<uint16_t>(i);
    std::memcpy(&native, &half, sizeof(native));
    const float expected = static_cast<float>(native);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(halves[i])) << i;
    } else {
      ASSERT_EQ(std::memcmp(&halves[i], &expected, sizeof(float)), 0) << i;
    }
  }
}

}  // namespace
}  // namespace spillway::test
