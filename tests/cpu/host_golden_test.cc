// The host backend against transformers' logits: every tiny model it can compute, and the real SmolLM2,
// unsplit and in two stages, with the tolerances of 8-bit activations.
#include <gtest/gtest.h>

#include <cctype>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
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

class HostGolden : public testing::TestWithParam<TinyCase> {};

TEST_P(HostGolden, AgreesWithTransformers) {
  CheckTinyModel(GetParam(), {Unsplit, Rounding::kActivations, 16});
}

TEST_P(HostGolden, AgreesInTwoStagesInChunksOfSeven) {
  CheckTinyModel(GetParam(), {Halves, Rounding::kActivations, 7});
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
