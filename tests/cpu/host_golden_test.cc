// The host backend against transformers' logits: every tiny model it can compute, and the real SmolLM2,
// unsplit and in two stages, with the tolerances of 8-bit activations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/stage/local_pipeline.h"
#include "tests/golden/checks.h"

namespace spillway::golden {
namespace {

Ledger& UnlimitedLedger() {
  static Ledger ledger;
  return ledger;
}

absl::StatusOr<std::vector<std::unique_ptr<Stage>>> Stages(const Model& model, const StageOptions& options,
                                                           std::vector<StageUnits> units) {
  std::vector<std::unique_ptr<Stage>> stages;
  for (const StageUnits& unit : units) {
    SPILLWAY_ASSIGN_OR_RETURN(auto stage, cpu::CreateHostStage(model, unit, options, UnlimitedLedger()));
    stages.push_back(std::move(stage));
  }
  return stages;
}

absl::StatusOr<std::vector<std::unique_ptr<Stage>>> Unsplit(const Model& model, const StageOptions& options) {
  return Stages(model, options, {{0, model.config.n_layer, true, true}});
}

absl::StatusOr<std::vector<std::unique_ptr<Stage>>> Halves(const Model& model, const StageOptions& options) {
  const uint32_t middle = model.config.n_layer / 2;
  return Stages(model, options, {{0, middle, true, false}, {middle, model.config.n_layer, false, true}});
}

absl::StatusOr<std::vector<std::unique_ptr<Stage>>> OnScalar(const Model& model,
                                                             const StageOptions& options) {
  std::vector<std::unique_ptr<Stage>> stages(1);
  SPILLWAY_ASSIGN_OR_RETURN(
      stages[0], cpu::CreateHostStageOn(cpu::Isa::kScalar, model, {0, model.config.n_layer, true, true},
                                        options, UnlimitedLedger()));
  return stages;
}

class HostGolden : public testing::TestWithParam<TinyCase> {};

TEST_P(HostGolden, AgreesWithTransformers) {
  CheckTinyModel(GetParam(), {Unsplit, Rounding::kActivations, 16});
}

TEST_P(HostGolden, AgreesInTwoStagesInChunksOfSeven) {
  CheckTinyModel(GetParam(), {Halves, Rounding::kActivations, 7});
}

// Law 1, for every kind of layer that the cases have.
TEST_P(HostGolden, IsBitIdenticalInStagesInChunksAndOnEveryIsa) {
  const TinyCase& tiny = GetParam();
  std::string error;
  const auto prompts = LoadTinyPrompts(tiny, &error);
  ASSERT_TRUE(prompts) << error;
  const absl::StatusOr<Model> model = LoadModel(tiny.path);
  if (!MustLoad(tiny) && absl::IsUnimplemented(model.status())) GTEST_SKIP() << MessageOf(model.status());
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  const TinyPrompt& longest =
      *std::max_element(prompts->begin(), prompts->end(),
                        [](const auto& a, const auto& b) { return a.ids.size() < b.ids.size(); });
  const auto logits = [&](const auto& make, uint32_t chunk, uint32_t threads) {
    StageOptions options;
    options.n_ctx = 128;
    options.kv_pages = PagesFor(options.n_ctx);
    options.max_sequences = 1;
    options.max_rows = chunk;
    options.threads = threads;
    const auto stages = make(*model, options);
    EXPECT_TRUE(stages.ok()) << MessageOf(stages.status());
    std::vector<Stage*> pointers;
    for (const auto& stage : *stages) pointers.push_back(stage.get());
    const auto result = AllLogits(pointers, longest.ids, chunk);
    EXPECT_TRUE(result.ok()) << MessageOf(result.status());
    return result.value_or(std::vector<float>());
  };
  const std::vector<float> expected = logits(Unsplit, 16, 1);
  ASSERT_FALSE(expected.empty());
  const auto same = [&](const std::vector<float>& other) {
    return other.size() == expected.size() &&
           std::memcmp(other.data(), expected.data(), expected.size() * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(logits(Halves, 7, 2)));
  EXPECT_TRUE(same(logits(Unsplit, 1, 3)));
  EXPECT_TRUE(same(logits(OnScalar, 5, 1)));
}

std::string CaseName(const testing::TestParamInfo<TinyCase>& info) {
  std::string name = info.param.model + "_" + info.param.file.substr(0, info.param.file.rfind('.'));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HostGolden);
INSTANTIATE_TEST_SUITE_P(Models, HostGolden, testing::ValuesIn(ListTinyCases()), CaseName);

TEST(HostRealModel, AgreesWithTransformers) { CheckRealModel({Unsplit, Rounding::kActivations, 16}); }

}  // namespace
}  // namespace spillway::golden
