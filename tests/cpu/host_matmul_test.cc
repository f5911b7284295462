// Matrix products: every ISA level bit-identical to the scalar one, and the scalar one close to the reference
// in double, over formats, shapes (1, lanes +- 1, primes, real ones) and row counts; packed weights exact.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/cpu/kernel_support.h"
#include "tests/support/expect_close.h"
#include "tests/support/random_data.h"

namespace spillway::cpu {
namespace {

constexpr uint64_t kSeed = 20240611;

// A matrix in the host's layout, with its storage.
struct Packed {
  Packed(TensorType type, const std::vector<std::byte>& raw, uint32_t n_out, uint32_t n_in)
      : storage(PackedBytes(PackingOf(type), n_out, n_in)) {
    PackMatrix(type, raw, n_out, n_in, storage.data());
    EXPECT_TRUE(storage.GuardIntact());
    matrix = {PackingOf(type), n_out, n_in, storage.data(), PackedGroupBytes(PackingOf(type), n_in)};
  }
  Aligned<std::byte> storage;
  PackedMatrix matrix;
};

struct MatmulCase {
  TensorType type;
  uint32_t n_out, n_in;
};

class HostMatmul : public testing::TestWithParam<MatmulCase> {};

std::vector<float> Multiply(const Kernels& kernels, const PackedMatrix& w, const std::vector<float>& x,
                            uint32_t rows, const std::vector<float>& bias, bool* guards_intact) {
  const uint32_t stride = PadTo32(w.n_in);
  const uint32_t out_stride = PadTo16(w.n_out);
  Aligned<float> input(size_t{rows} * stride);
  Aligned<int8_t> codes(size_t{rows} * stride);
  Aligned<ActivationBlock> blocks(size_t{rows} * stride / 32);
  Aligned<float> padded_bias(out_stride);
  std::copy(bias.begin(), bias.end(), padded_bias.data());
  Aligned<float> y(size_t{rows} * out_stride);
  for (uint32_t r = 0; r < rows; ++r) {
    std::copy_n(x.data() + size_t{r} * w.n_in, w.n_in, input.data() + size_t{r} * stride);
    if (w.Quantized()) {
      kernels.quantize(input.data() + size_t{r} * stride, w.n_in, codes.data() + size_t{r} * stride,
                       blocks.data() + size_t{r} * stride / 32);
    }
  }
  const QuantizedRows quantized{codes.data(), blocks.data(), stride};
  MatmulArgs args;
  args.w = &w;
  args.x = input.data();
  args.x_stride = stride;
  args.quantized = &quantized;
  args.rows = rows;
  args.y = y.data();
  args.y_stride = out_stride;
  args.bias = bias.empty() ? nullptr : padded_bias.data();
  kernels.matmul[static_cast<size_t>(w.packing)](args, 0, w.Groups());
  *guards_intact = y.GuardIntact() && codes.GuardIntact() && blocks.GuardIntact();
  std::vector<float> out;
  for (uint32_t r = 0; r < rows; ++r)
    out.insert(out.end(), y.data() + r * out_stride, y.data() + r * out_stride + w.n_out);
  return out;
}

TEST_P(HostMatmul, MatchesReferenceAndIsTheSameOnEveryLevelAndRowCount) {
  const auto [type, n_out, n_in] = GetParam();
  const std::vector<std::byte> raw = test::RandomBlocks(type, uint64_t{n_out} * n_in, kSeed);
  const std::vector<float> weights = test::Dequantize(type, raw);
  Packed packed(type, raw, n_out, n_in);
  const PackedMatrix& w = packed.matrix;
  const std::vector<float> bias = test::RandomFloats(n_out, kSeed + 1);
  constexpr uint32_t kRows = 9;
  const std::vector<float> x = test::RandomFloats(size_t{kRows} * n_in, kSeed + 2);

  bool intact = false;
  const std::vector<float> expected = Multiply(ScalarKernels(), w, x, kRows, bias, &intact);
  EXPECT_TRUE(intact);
  for (const Kernels* level : Levels()) {
    for (uint32_t rows = 1; rows <= kRows; ++rows) {
      SCOPED_TRACE(std::string(IsaName(level->isa)) + " rows " + std::to_string(rows));
      const std::vector<float> part(x.begin(), x.begin() + size_t{rows} * n_in);
      const std::vector<float> actual = Multiply(*level, w, part, rows, bias, &intact);
      EXPECT_TRUE(intact);
      test::ExpectSameBits(actual, std::span(expected).first(actual.size()));
    }
  }
  // 8-bit activations: the error of a product is at most half a step per activation times the row's absolute
  // sum.
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t o = 0; o < n_out; ++o) {
      double exact = bias[o], magnitude = 0;
      for (uint32_t i = 0; i < n_in; ++i) {
        exact += double{weights[size_t{o} * n_in + i]} * x[size_t{r} * n_in + i];
        magnitude += std::abs(weights[size_t{o} * n_in + i]);
      }
      const double tolerance = w.Quantized() ? magnitude * 0.5 / 127 + 1e-5 : magnitude * 1e-6 + 1e-6;
      ASSERT_TRUE(std::abs(expected[size_t{r} * n_out + o] - exact) <= tolerance)
          << "row " << r << " output " << o << ": " << expected[size_t{r} * n_out + o] << " is not " << exact
          << " +- " << tolerance;
    }
  }
}

// All quantized formats, over matrices of 17 rows.
class HostFormats : public testing::TestWithParam<TensorType> {
 protected:
  static constexpr uint32_t kOut = 17, kIn = 512;
};

// A row with a single 1 is that block's outlier: no activation is rounded.
void ExpectOneHotRowsGiveWeights(TensorType type, const std::vector<std::byte>& raw, uint32_t n_out,
                                 uint32_t n_in) {
  const std::vector<float> weights = test::Dequantize(type, raw);
  Packed packed(type, raw, n_out, n_in);
  std::vector<float> x(size_t{n_in} * n_in);
  for (uint32_t i = 0; i < n_in; ++i) x[size_t{i} * n_in + i] = 1.0f;
  for (const Kernels* level : Levels()) {
    SCOPED_TRACE(IsaName(level->isa));
    bool intact = false;
    const std::vector<float> y = Multiply(*level, packed.matrix, x, n_in, {}, &intact);
    EXPECT_TRUE(intact);
    for (uint32_t i = 0; i < n_in; ++i) {
      for (uint32_t o = 0; o < n_out; ++o) {
        ASSERT_EQ(y[size_t{i} * n_out + o], weights[size_t{o} * n_in + i]) << "row " << o << " column " << i;
      }
    }
  }
}

TEST_P(HostFormats, OneHotRowsGiveTheDequantizedWeights) {
  const auto raw = test::RandomBlocks(GetParam(), uint64_t{kOut} * kIn, kSeed + 6);
  ExpectOneHotRowsGiveWeights(GetParam(), raw, kOut, kIn);
}

TEST(HostMxfp4, KeepsSubnormalAndHugeScales) {
  auto raw = test::RandomBlocks(TensorType::kMXFP4, 4 * 32, kSeed + 9);
  for (uint32_t block = 0; block < 4; ++block)
    raw[17 * block] =
        std::array<std::byte, 4>{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{250}}[block];
  ExpectOneHotRowsGiveWeights(TensorType::kMXFP4, raw, 1, 4 * 32);
}

// Integers up to 127 with 127 among them are their own codes, so only float32 sums round; equal bytes in all
// blocks reach each format's extreme codes, where 16-bit partial sums are fullest.
TEST_P(HostFormats, IntegerRowsMultiplyExactlyUpToTheExtremes) {
  constexpr uint32_t kRows = 4;
  std::vector<float> x = test::RandomFloats(size_t{kRows} * kIn, kSeed + 7, -127.0f, 127.0f);
  for (uint32_t i = 0; i < x.size(); ++i) {
    x[i] = i < kIn ? 127.0f : i < 2 * kIn ? -127.0f : i % 16 == 3 ? 127.0f : std::nearbyint(x[i]);
  }
  std::vector<std::vector<std::byte>> matrices = {
      test::RandomBlocks(GetParam(), uint64_t{kOut} * kIn, kSeed + 8)};
  for (uint8_t fill : {0x00, 0x77, 0x7F, 0x80, 0xFF}) {
    matrices.push_back(test::FilledBlocks(GetParam(), uint64_t{kOut} * kIn, kSeed + 8, fill));
  }
  for (const auto& raw : matrices) {
    const std::vector<float> weights = test::Dequantize(GetParam(), raw);
    Packed packed(GetParam(), raw, kOut, kIn);
    for (const Kernels* level : Levels()) {
      SCOPED_TRACE(testing::Message() << IsaName(level->isa) << ", matrix " << (&raw - matrices.data()));
      bool intact = false;
      const std::vector<float> y = Multiply(*level, packed.matrix, x, kRows, {}, &intact);
      EXPECT_TRUE(intact);
      for (uint32_t r = 0; r < kRows; ++r) {
        for (uint32_t o = 0; o < kOut; ++o) {
          double exact = 0, magnitude = 0;
          for (uint32_t i = 0; i < kIn; ++i) {
            const double product = double{weights[size_t{o} * kIn + i]} * x[size_t{r} * kIn + i];
            exact += product;
            magnitude += std::abs(product);
          }
          // 16 blocks, four roundings each, at most; the minimum's product may be larger than what is left of
          // it.
          ASSERT_NEAR(y[size_t{r} * kOut + o], exact, magnitude * 64 * 0x1p-24 + 1e-3)
              << "row " << r << " output " << o;
        }
      }
    }
  }
}

std::vector<TensorType> QuantizedTypes() {
  std::vector<TensorType> types;
  for (const FormatInfo& format : AllFormats()) {
    if (format.block_elements > 1) types.push_back(format.type);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Formats, HostFormats, testing::ValuesIn(QuantizedTypes()),
                         [](const auto& info) { return std::string(FormatOf(info.param).name); });

INSTANTIATE_TEST_SUITE_P(
    Formats, HostMatmul,
    testing::Values(MatmulCase{TensorType::kF32, 1, 1}, MatmulCase{TensorType::kF32, 17, 31},
                    MatmulCase{TensorType::kF16, 33, 127}, MatmulCase{TensorType::kF16, 16, 4},
                    MatmulCase{TensorType::kBF16, 15, 66}, MatmulCase{TensorType::kQ4_0, 17, 32},
                    MatmulCase{TensorType::kQ4_0, 64, 576}, MatmulCase{TensorType::kQ4_1, 1, 32},
                    MatmulCase{TensorType::kQ4_1, 47, 1536}, MatmulCase{TensorType::kQ8_0, 31, 96},
                    MatmulCase{TensorType::kQ8_0, 16, 576}, MatmulCase{TensorType::kQ5_0, 18, 64},
                    MatmulCase{TensorType::kIQ4_NL, 18, 64}, MatmulCase{TensorType::kQ4_K, 19, 256},
                    MatmulCase{TensorType::kQ4_K, 16, 1536}, MatmulCase{TensorType::kQ6_K, 3, 256},
                    MatmulCase{TensorType::kQ6_K, 34, 768}, MatmulCase{TensorType::kQ5_1, 17, 96},
                    MatmulCase{TensorType::kMXFP4, 15, 288}, MatmulCase{TensorType::kQ2_K, 18, 256},
                    MatmulCase{TensorType::kQ2_K, 47, 768}, MatmulCase{TensorType::kQ3_K, 1, 256},
                    MatmulCase{TensorType::kQ3_K, 33, 512}, MatmulCase{TensorType::kQ5_K, 17, 256},
                    MatmulCase{TensorType::kQ5_K, 64, 1536}, MatmulCase{TensorType::kIQ4_XS, 19, 256},
                    MatmulCase{TensorType::kIQ4_XS, 16, 1024}),
    [](const auto& info) {
      return std::string(FormatOf(info.param.type).name) + "_" + std::to_string(info.param.n_out) + "x" +
             std::to_string(info.param.n_in);
    });

}  // namespace
}  // namespace spillway::cpu
