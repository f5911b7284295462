// Attention and expert forms beyond the usual ones on the host backend: close to the reference, the same bits
// in every split, chunking, thread count, ISA level and form of file (law 1), the plan equal to the ledger.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/ref/ref_stage.h"
#include "engine/stage/local_pipeline.h"
#include "tests/model/tiny_kinds.h"
#include "tests/support/expect_close.h"

namespace spillway::cpu {
namespace {

constexpr uint32_t kLayers = 4;
constexpr uint32_t kVocab = 48;
const StageUnits kWhole = {0, kLayers, true, true};

StageOptions Options(uint32_t threads = 1, CacheType cache = CacheType::kF16) {
  return {.n_ctx = 64,
          .kv_pages = 4,
          .max_sequences = 2,
          .max_rows = 16,
          .threads = threads,
          .cache_type_k = cache,
          .cache_type_v = cache};
}

std::vector<int32_t> Tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 41; ++i) tokens.push_back((i * 29 + 5) % static_cast<int>(kVocab));
  return tokens;
}

std::vector<float> Logits(const std::vector<std::unique_ptr<Stage>>& stages, uint32_t chunk) {
  std::vector<Stage*> pointers;
  for (const auto& stage : stages) pointers.push_back(stage.get());
  const auto logits = AllLogits(pointers, Tokens(), chunk);
  EXPECT_TRUE(logits.ok()) << MessageOf(logits.status());
  return logits.value_or(std::vector<float>());
}

// 8 bits move a router's choice now and then, and with it a whole row: the worst difference says nothing.
double MedianDifference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    differences.push_back(std::isfinite(a[i]) ? std::abs(double{a[i]} - b[i]) : HUGE_VAL);
  }
  const auto middle = differences.begin() + static_cast<ptrdiff_t>(differences.size() / 2);
  std::nth_element(differences.begin(), middle, differences.end());
  return a.size() == b.size() ? *middle : HUGE_VAL;
}

class HostKinds : public testing::TestWithParam<tiny::TinyKind> {
 protected:
  std::vector<float> Host(const Model& model, const std::vector<StageUnits>& units, uint32_t chunk,
                          uint32_t threads = 1, Isa isa = DetectIsa()) {
    std::vector<std::unique_ptr<Stage>> stages;
    for (const StageUnits& unit : units) {
      auto stage = CreateHostStageOn(isa, model, unit, Options(threads, cache_), ledger_);
      EXPECT_TRUE(stage.ok()) << MessageOf(stage.status());
      stages.push_back(std::move(*stage));
    }
    return Logits(stages, chunk);
  }

  static std::unique_ptr<Model> Load(std::string_view kind, TensorType type = TensorType::kF16) {
    auto model = tiny::LoadTinyKind(kind, type);
    EXPECT_TRUE(model.ok()) << MessageOf(model.status());
    return model.ok() ? std::make_unique<Model>(std::move(*model)) : nullptr;
  }

  Ledger ledger_;
  CacheType cache_ = CacheType::kF16;
};

TEST_P(HostKinds, IsCloseToTheReference) {
  const auto model = Load(GetParam().name, TensorType::kF32);
  ASSERT_NE(model, nullptr);
  std::vector<std::unique_ptr<Stage>> reference(1);
  auto stage = ref::CreateRefStage(*model, kWhole, Options());
  ASSERT_TRUE(stage.ok()) << MessageOf(stage.status());
  reference[0] = std::move(*stage);
  // Float weights: only the cache is rounded, to f16.
  const std::vector<float> expected = Logits(reference, 16);
  test::ExpectClose(Host(*model, {kWhole}, 16), expected, 0.05);
  cache_ = CacheType::kQ8_0;
  EXPECT_LE(MedianDifference(Host(*model, {kWhole}, 16), expected), 0.1);
}

TEST_P(HostKinds, GivesTheSameBitsHoweverItIsComputed) {
  for (const TensorType type : {TensorType::kF16, TensorType::kQ8_0}) {
    // With weights of 8 bits also a cache of 8 bits.
    cache_ = type == TensorType::kQ8_0 ? CacheType::kQ8_0 : CacheType::kF16;
    const auto model = Load(GetParam().name, type);
    ASSERT_NE(model, nullptr);
    const std::vector<float> expected = Host(*model, {kWhole}, 16);
    for (uint32_t split = 0; split <= kLayers; ++split) {
      SCOPED_TRACE(split);
      test::ExpectSameBits(Host(*model, {{0, split, true, false}, {split, kLayers, false, true}}, 1 + split),
                           expected);
    }
    test::ExpectSameBits(Host(*model, {kWhole}, 7, 3), expected);
    test::ExpectSameBits(Host(*model, {kWhole}, 16, 1, Isa::kScalar), expected);
  }
}

TEST_P(HostKinds, GivesWhatAnotherFormOfTheFileGives) {
  if (GetParam().same_as.empty()) GTEST_SKIP() << "the first of its forms";
  // In F32 the two forms hold the same numbers, even where one is laid out transposed.
  const auto model = Load(GetParam().name, TensorType::kF32);
  const auto other = Load(GetParam().same_as, TensorType::kF32);
  ASSERT_TRUE(model != nullptr && other != nullptr);
  test::ExpectSameBits(Host(*model, {kWhole}, 16), Host(*other, {kWhole}, 16));
}

TEST_P(HostKinds, PlansItsLedgerToTheByte) {
  const auto model = Load(GetParam().name);
  ASSERT_NE(model, nullptr);
  const bool latent = model->config.layers[0].Latent();
  for (uint32_t split = 0; split <= kLayers; ++split) {
    for (const CacheType cache : {CacheType::kF16, CacheType::kQ8_0}) {
      const StageUnits units = {split, kLayers, false, true};
      const auto planned = HostStageBytes(*model, units, Options(2, cache));
      ASSERT_TRUE(planned.ok()) << MessageOf(planned.status());
      Ledger ledger(planned->Total());
      const auto stage = CreateHostStage(*model, units, Options(2, cache), ledger);
      ASSERT_TRUE(stage.ok()) << MessageOf(stage.status());
      EXPECT_EQ(ledger.Allocated(), *planned);
      // Per token a latent (96) and the shared rotated part (16), or keys and values of 2 heads of 16:
      // nothing else is cached. Codes have an f16 scale for every 32 dimensions of a head.
      const uint64_t f16 = latent ? (96 + 16) * 2 : 2 * 2 * 16 * 2;
      const uint64_t q8_0 = latent ? 96 + 16 + 4 * 2 : 2 * 2 * (16 + 2);
      EXPECT_EQ((*planned)[Purpose::kKvCache],
                units.Layers() * 4 * 32 * (cache == CacheType::kF16 ? f16 : q8_0));
    }
  }
}

std::string KindName(const testing::TestParamInfo<tiny::TinyKind>& info) {
  std::string name(info.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, HostKinds,
                         testing::ValuesIn(tiny::TinyKinds().begin(), tiny::TinyKinds().end()), KindName);

}  // namespace
}  // namespace spillway::cpu
