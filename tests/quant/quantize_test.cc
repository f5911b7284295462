// Quantizers: the round trip stays within the format's own step, extremes survive, and odd blocks (zero,
// constant, tiny) do not break them.
#include "engine/quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/expect_close.h"
#include "tests/support/random_data.h"

namespace spillway::test {
namespace {

std::vector<float> RoundTrip(const QuantizerInfo& quantizer, const std::vector<float>& values) {
  const FormatInfo& format = FormatOf(quantizer.type);
  std::vector<std::byte> blocks(values.size() / format.block_elements * format.block_bytes);
  quantizer.quantize(values.data(), blocks.data(), values.size());
  return Dequantize(quantizer.type, blocks);
}

// Largest error allowed for values in [-1, 1]: a little over half a step of the format.
double ToleranceOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 0.0;
    case TensorType::kF16:
      return 0x1p-12;
    case TensorType::kBF16:
      return 0x1p-9;
    case TensorType::kQ8_0:
      return 0.51 / 127;
    case TensorType::kQ4_0:
      return 1.01 / 8;  // the end opposite to the extreme has a whole step
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
      return 0.54 * 2 / 15;
    case TensorType::kQ6_K:
      return 1.3 / 32;  // likewise, and scales of 8 bits
    default:
      return -1.0;
  }
}

TEST(Quantize, RoundTripStaysWithinAStepOfTheFormat) {
  for (const QuantizerInfo& quantizer : AllQuantizers()) {
    SCOPED_TRACE(FormatOf(quantizer.type).name);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const std::vector<float> values = RandomFloats(4096, seed);
      ExpectClose(RoundTrip(quantizer, values), values, ToleranceOf(quantizer.type));
    }
  }
}

TEST(Quantize, KeepsZeroAndConstantBlocks) {
  for (const QuantizerInfo& quantizer : AllQuantizers()) {
    SCOPED_TRACE(FormatOf(quantizer.type).name);
    for (const float constant : {0.0f, 1.0f, -1.0f, 0.5f, 1e-6f, -1e-9f, 1000.0f}) {
      SCOPED_TRACE(constant);
      const std::vector<float> values(512, constant);
      // f16 scales resolve 2^-24 at best, of which a block uses up to 127 steps.
      const double tolerance = std::fabs(constant) * 0.01 + 0x1p-24 * 128;
      ExpectClose(RoundTrip(quantizer, values), values, tolerance);
    }
  }
}

TEST(Quantize, QuantizingAgainChangesNothingInTheSimpleFormats) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0}) {
    SCOPED_TRACE(FormatOf(type).name);
    const QuantizerInfo& quantizer = *FindQuantizer(type);
    const std::vector<float> once = RoundTrip(quantizer, RandomFloats(1024, 9));
    ExpectClose(RoundTrip(quantizer, once), once, type == TensorType::kQ8_0 ? 1e-3 : 0.0);
  }
}

TEST(Quantize, FormatsWithoutAQuantizerSaySo) {
  EXPECT_EQ(FindQuantizer(TensorType::kIQ4_XS), nullptr);
  EXPECT_NE(FindQuantizer(TensorType::kQ4_K), nullptr);
}

}  // namespace
}  // namespace spillway::test
