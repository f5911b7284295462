// RefStage: the Stage whose every step is a reference operation in double. Keys and values are kept unrounded
// in double; only activations between stages are float32, by the interface. It is the oracle that tests and
// `spillway logits --backend ref` compare with, and is allowed to allocate in Forward.
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "engine/model/config.h"
#include "engine/stage/stage.h"

namespace spillway::ref {

// Dequantizes the weights of `units` to float32 and allocates the pages of `options`. The model outlives the
// stage. InvalidArgument for units that the model does not have; ResourceExhausted when memory is short.
absl::StatusOr<std::unique_ptr<Stage>> CreateRefStage(const Model& model, const StageUnits& units,
                                                      const StageOptions& options);

}  // namespace spillway::ref
