// Kernels: every ISA level bit-identical to the scalar one, and the scalar one close to the reference in
// double, over formats, shapes (0, 1, lanes +- 1, primes, real ones) and row counts.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/cpu/kernels.h"
#include "tests/support/expect_close.h"
#include "tests/support/random_data.h"

namespace spillway::cpu {
namespace {

constexpr uint64_t kSeed = 20240611;

std::vector<const Kernels*> Levels() {
  std::vector<const Kernels*> levels = {&ScalarKernels()};
  if (MachineHas(Isa::kAvx2)) levels.push_back(&Avx2Kernels());
  return levels;
}

// 64-byte aligned zeroed storage with a guard band behind it.
template <typename T>
class Aligned {
 public:
  explicit Aligned(size_t count) : count_(count), storage_((count * sizeof(T) + 127) / 64 + 2) {
    std::fill_n(reinterpret_cast<uint8_t*>(data() + count), 64, uint8_t{0xA5});
  }
  T* data() { return reinterpret_cast<T*>(storage_.data()); }
  bool GuardIntact() {
    const auto* guard = reinterpret_cast<const uint8_t*>(data() + count_);
    return std::all_of(guard, guard + 64, [](uint8_t b) { return b == 0xA5; });
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  size_t count_;
  std::vector<Line> storage_;
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
  const auto packing = PackingOf(type);
  ASSERT_TRUE(packing.ok()) << packing.status();
  const std::vector<std::byte> raw = test::RandomBlocks(type, uint64_t{n_out} * n_in, kSeed);
  const std::vector<float> weights = test::Dequantize(type, raw);
  Aligned<std::byte> packed(PackedBytes(*packing, n_out, n_in));
  PackMatrix(type, raw, n_out, n_in, packed.data());
  const PackedMatrix w{*packing, n_out, n_in, packed.data(), PackedGroupBytes(*packing, n_in)};
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
                    MatmulCase{TensorType::kQ6_K, 34, 768}),
    [](const auto& info) {
      return std::string(FormatOf(info.param.type).name) + "_" + std::to_string(info.param.n_out) + "x" +
             std::to_string(info.param.n_in);
    });

TEST(HostVectorKernels, AreTheSameOnEveryLevelAtOddLengths) {
  for (uint32_t n : {1u, 15u, 16u, 17u, 31u, 64u, 127u, 576u}) {
    SCOPED_TRACE(n);
    std::vector<std::vector<float>> results;
    for (const Kernels* level : Levels()) {
      Aligned<float> x(PadTo32(n)), weight(PadTo32(n)), out(PadTo32(n));
      const auto values = test::RandomFloats(n, kSeed, -30.0f, 30.0f);
      std::copy(values.begin(), values.end(), x.data());
      std::copy(values.rbegin(), values.rend(), weight.data());
      level->rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
      std::vector<float> all(out.data(), out.data() + PadTo16(n));
      level->silu_mul(x.data(), weight.data(), PadTo16(n), out.data());
      all.insert(all.end(), out.data(), out.data() + n);
      level->gelu_mul(x.data(), weight.data(), PadTo16(n), out.data());
      all.insert(all.end(), out.data(), out.data() + n);
      EXPECT_TRUE(out.GuardIntact());
      for (uint32_t i = 0; i < n; ++i) {
        const double g = values[i], u = values[n - 1 - i];
        ASSERT_NEAR(all[PadTo16(n) + i], g / (1 + std::exp(-g)) * u, 1e-5 * std::abs(g * u) + 1e-6);
      }
      results.push_back(std::move(all));
    }
    for (const auto& result : results) test::ExpectSameBits(result, results[0]);
  }
}

TEST(HostAttention, MatchesReferenceAndIsTheSameOnEveryLevel) {
  for (const auto& [heads, head_dim, n_tokens] :
       {std::tuple{1u, 16u, 1u}, {3u, 64u, 33u}, {4u, 40u, 100u}, {2u, 8u, 64u}}) {
    SCOPED_TRACE(testing::Message() << heads << " heads of " << head_dim << " over " << n_tokens);
    const uint32_t padded = PadTo16(head_dim);
    const uint32_t n_pages = PagesFor(n_tokens);
    const uint64_t page_stride = uint64_t{kPageTokens} * (head_dim + padded);
    const auto keys = test::RandomFloats(size_t{n_tokens} * head_dim, kSeed + 3);
    const auto values = test::RandomFloats(size_t{n_tokens} * head_dim, kSeed + 4);
    const auto q = test::RandomFloats(size_t{heads} * head_dim, kSeed + 5, -2.0f, 2.0f);
    std::vector<uint32_t> pages(n_pages);
    for (uint32_t i = 0; i < n_pages; ++i) pages[i] = n_pages - 1 - i;  // not in order
    std::vector<std::vector<float>> results;
    for (const Kernels* level : Levels()) {
      Aligned<uint16_t> cache(page_stride * n_pages);
      for (uint32_t t = 0; t < n_tokens; ++t) {
        uint16_t* page = cache.data() + pages[t / kPageTokens] * page_stride;
        level->store_kv(keys.data() + size_t{t} * head_dim, values.data() + size_t{t} * head_dim, head_dim,
                        t % kPageTokens, page, page + uint64_t{head_dim} * kPageTokens);
      }
      Aligned<float> scores(size_t{heads} * n_pages * kPageTokens), out(size_t{heads} * head_dim);
      AttendArgs args;
      args.q = q.data();
      args.heads = heads;
      args.head_dim = head_dim;
      args.n_tokens = n_tokens;
      args.pages = pages.data();
      args.k_pages = cache.data();
      args.v_pages = cache.data() + uint64_t{head_dim} * kPageTokens;
      args.page_stride = page_stride;
      args.scale = 0.125f;
      args.scores = scores.data();
      args.out = out.data();
      level->attend(args);
      EXPECT_TRUE(scores.GuardIntact() && out.GuardIntact() && cache.GuardIntact());
      results.emplace_back(out.data(), out.data() + size_t{heads} * head_dim);
    }
    for (const auto& result : results) test::ExpectSameBits(result, results[0]);
    for (uint32_t h = 0; h < heads; ++h) {
      std::vector<double> p(n_tokens);
      double total = 0;
      for (uint32_t t = 0; t < n_tokens; ++t) {
        double dot = 0;
        for (uint32_t d = 0; d < head_dim; ++d)
          dot += double{q[h * head_dim + d]} * keys[size_t{t} * head_dim + d];
        total += p[t] = std::exp(dot * 0.125);
      }
      for (uint32_t d = 0; d < head_dim; ++d) {
        double sum = 0;
        for (uint32_t t = 0; t < n_tokens; ++t) sum += p[t] / total * values[size_t{t} * head_dim + d];
        EXPECT_NEAR(results[0][h * head_dim + d], sum, 2e-3);
      }
    }
  }
}

TEST(RopeAnglesInDouble, AgreeWithLibmUpToAMillionPositions) {
  const std::vector<float> frequencies = {1.0f, 0.7391f, 0.01f, 1e-5f, 3.0f};
  std::vector<float> cos(5), sin(5);
  for (uint32_t position : {0u, 1u, 2u, 100u, 8191u, 131071u, 1000003u}) {
    RopeAngles(position, frequencies.data(), 5, cos.data(), sin.data());
    for (int i = 0; i < 5; ++i) {
      EXPECT_NEAR(cos[i], std::cos(position * double{frequencies[i]}), 1e-7);
      EXPECT_NEAR(sin[i], std::sin(position * double{frequencies[i]}), 1e-7);
    }
  }
}

}  // namespace
}  // namespace spillway::cpu
