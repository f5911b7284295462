// The reference backend against transformers' logits: every tiny model of the golden cases whose architecture
// is supported, unsplit and split, and the harness's own ability to fail.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "engine/base/status.h"
#include "engine/ref/ref_stage.h"
#include "tests/golden/checks.h"

namespace spillway::golden {
namespace {

absl::StatusOr<std::vector<std::unique_ptr<Stage>>> Unsplit(const Model& model, const StageOptions& options) {
  SPILLWAY_ASSIGN_OR_RETURN(auto stage,
                            ref::CreateRefStage(model, {0, model.config.n_layer, true, true}, options));
  std::vector<std::unique_ptr<Stage>> stages;
  stages.push_back(std::move(stage));
  return stages;
}

// A stage for each layer, and the embedding and the head on their own.
absl::StatusOr<std::vector<std::unique_ptr<Stage>>> SplitEverywhere(const Model& model,
                                                                    const StageOptions& options) {
  const uint32_t n_layer = model.config.n_layer;
  std::vector<StageUnits> units = {{0, 0, true, false}};
  for (uint32_t layer = 0; layer < n_layer; ++layer) units.push_back({layer, layer + 1, false, false});
  units.push_back({n_layer, n_layer, false, true});
  std::vector<std::unique_ptr<Stage>> stages;
  for (const StageUnits& unit : units) {
    SPILLWAY_ASSIGN_OR_RETURN(auto stage, ref::CreateRefStage(model, unit, options));
    stages.push_back(std::move(stage));
  }
  return stages;
}

class RefGolden : public testing::TestWithParam<TinyCase> {};

TEST_P(RefGolden, AgreesWithTransformers) { CheckTinyModel(GetParam(), {Unsplit, Rounding::kNone, 32}); }

TEST_P(RefGolden, AgreesWhenSplitEverywhereInChunksOfSeven) {
  if (GetParam().type != "F16") GTEST_SKIP() << "one format is enough";
  CheckTinyModel(GetParam(), {SplitEverywhere, Rounding::kNone, 7});
}

std::string CaseName(const testing::TestParamInfo<TinyCase>& info) {
  std::string name = info.param.model + "_" + info.param.file.substr(0, info.param.file.rfind('.'));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RefGolden);
INSTANTIATE_TEST_SUITE_P(Models, RefGolden, testing::ValuesIn(ListTinyCases()), CaseName);

TEST(GoldenCases, HoldEveryModelThatMustWork) {
  std::string why;
  if (!CasesFolder(&why)) GTEST_SKIP() << why;
  std::set<std::string> models;
  for (const TinyCase& tiny : ListTinyCases()) models.insert(tiny.model);
  EXPECT_TRUE(models.contains("llama") && models.contains("llama-rope3"));
}

TEST(GoldenChecks, NotANumberSpoilsTheWholeRow) {
  const std::vector<float> logits = {1.0f, std::numeric_limits<float>::quiet_NaN(), 2.0f};
  for (const double value : LogProbabilities(logits)) EXPECT_TRUE(std::isnan(value));
}

TEST(GoldenChecks, LogProbabilitiesSumToOne) {
  const std::vector<float> logits = {1.0f, -3.0f, 700.0f, 699.0f};
  double sum = 0;
  for (const double value : LogProbabilities(logits)) sum += std::exp(value);
  EXPECT_NEAR(sum, 1.0, 1e-12);
}

}  // namespace
}  // namespace spillway::golden
