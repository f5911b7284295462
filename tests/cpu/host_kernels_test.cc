// Vector kernels, attention and RoPE angles: every ISA level bit-identical to the scalar one, and the scalar
// one close to the reference in double, over lengths (1, lanes +- 1, primes, real ones).
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpu/kernel_support.h"
#include "tests/support/expect_close.h"
#include "tests/support/random_data.h"

namespace spillway::cpu {
namespace {

constexpr uint64_t kSeed = 20240611;

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

struct AttentionCase {
  uint32_t heads, head_dim, n_tokens;
  uint32_t value_dim = 0;  // 0: values of their own; else of the beginnings of keys
  CacheType type = CacheType::kF16;
};

TEST(HostAttention, MatchesReferenceAndIsTheSameOnEveryLevel) {
  constexpr CacheType kCodes = CacheType::kQ8_0;
  for (const AttentionCase& c : {AttentionCase{1, 16, 1},
                                 {3, 64, 33},
                                 {4, 40, 100},
                                 {2, 8, 64},
                                 {4, 72, 1, 64},
                                 {1, 24, 33, 19},
                                 {3, 40, 100, 32},
                                 {1, 16, 1, 0, kCodes},
                                 {3, 64, 33, 0, kCodes},
                                 {4, 40, 100, 0, kCodes},
                                 {2, 8, 64, 0, kCodes},
                                 {4, 72, 1, 64, kCodes},
                                 {1, 24, 33, 19, kCodes},
                                 {3, 40, 100, 32, kCodes}}) {
    SCOPED_TRACE(testing::Message() << c.heads << " heads of " << c.head_dim << " over " << c.n_tokens);
    const uint32_t heads = c.heads, head_dim = c.head_dim, n_tokens = c.n_tokens;
    const bool latent = c.value_dim > 0;
    const uint32_t value_dim = latent ? c.value_dim : head_dim;
    const uint32_t n_pages = PagesFor(n_tokens);
    const uint64_t key_bytes = KeyPageBytes(c.type, head_dim);
    const uint64_t page_stride = key_bytes + (latent ? 0 : ValuePageBytes(c.type, head_dim));
    const auto keys = test::RandomFloats(size_t{n_tokens} * head_dim, kSeed + 3);
    const auto values = latent ? keys : test::RandomFloats(size_t{n_tokens} * head_dim, kSeed + 4);
    const uint32_t q_stride = head_dim + 3, out_stride = value_dim + 5;
    const auto q = test::RandomFloats(size_t{heads} * q_stride, kSeed + 5, -2.0f, 2.0f);
    std::vector<uint32_t> pages(n_pages);
    for (uint32_t i = 0; i < n_pages; ++i) pages[i] = n_pages - 1 - i;  // not in order
    std::vector<std::vector<float>> results;
    for (const Kernels* level : Levels()) {
      Aligned<std::byte> cache(page_stride * n_pages);
      // What an earlier sequence left behind must not matter, not even NaN.
      if (latent) std::fill_n(cache.data(), page_stride * n_pages, std::byte{0x7f});
      for (uint32_t t = 0; t < n_tokens; ++t) {
        std::byte* page = cache.data() + pages[t / kPageTokens] * page_stride;
        level->store_key(c.type, keys.data() + size_t{t} * head_dim, head_dim, t % kPageTokens, page);
        if (latent) continue;
        level->store_value(c.type, values.data() + size_t{t} * head_dim, head_dim, t % kPageTokens,
                           page + key_bytes);
      }
      Aligned<float> scores(size_t{heads} * n_pages * kPageTokens), out(size_t{heads} * out_stride);
      AttendArgs args;
      args.q = q.data();
      args.q_stride = q_stride;
      args.heads = heads;
      args.head_dim = head_dim;
      args.value_dim = value_dim;
      args.n_tokens = n_tokens;
      args.pages = pages.data();
      args.k_type = args.v_type = c.type;
      args.k_pages = cache.data();
      if (!latent) args.v_pages = cache.data() + key_bytes;
      args.page_stride = page_stride;
      args.scale = 0.125f;
      args.scores = scores.data();
      args.out = out.data();
      args.out_stride = out_stride;
      level->attend(args);
      EXPECT_TRUE(scores.GuardIntact() && out.GuardIntact() && cache.GuardIntact());
      results.emplace_back(out.data(), out.data() + size_t{heads} * out_stride);
    }
    for (const auto& result : results) test::ExpectSameBits(result, results[0]);
    for (uint32_t h = 0; h < heads; ++h) {
      std::vector<double> p(n_tokens);
      double total = 0;
      for (uint32_t t = 0; t < n_tokens; ++t) {
        double dot = 0;
        for (uint32_t d = 0; d < head_dim; ++d)
          dot += double{q[h * q_stride + d]} * keys[size_t{t} * head_dim + d];
        total += p[t] = std::exp(dot * 0.125);
      }
      for (uint32_t d = 0; d < value_dim; ++d) {
        double sum = 0;
        for (uint32_t t = 0; t < n_tokens; ++t) sum += p[t] / total * values[size_t{t} * head_dim + d];
        EXPECT_NEAR(results[0][h * out_stride + d], sum, c.type == kCodes ? 2e-2 : 2e-3);
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
