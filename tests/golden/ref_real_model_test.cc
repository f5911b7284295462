// The reference backend on the real SmolLM2: every listed log-probability. Slow: some hundred rows through
// 135 million weights in double.
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/ref/ref_stage.h"
#include "tests/golden/checks.h"

namespace spillway::golden {
namespace {

TEST(RefRealModel, AgreesWithTransformers) {
  const auto unsplit =
      [](const Model& model,
         const StageOptions& options) -> absl::StatusOr<std::vector<std::unique_ptr<Stage>>> {
    SPILLWAY_ASSIGN_OR_RETURN(auto stage,
                              ref::CreateRefStage(model, {0, model.config.n_layer, true, true}, options));
    std::vector<std::unique_ptr<Stage>> stages;
    stages.push_back(std::move(stage));
    return stages;
  };
  CheckRealModel({unsplit, Rounding::kNone, 128});
}

}  // namespace
}  // namespace spillway::golden
