// The golden checks, for any backend: hand in how its stages are made and how it rounds. Each check reports
// through GoogleTest's expectations of the running test. A new backend's test file is a factory and three

#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "engine/stage/stage.h"
#include "tests/golden/cases.h"

namespace spillway::golden {

// The stages of an unsplit or split pipeline over `model`, in order.
using StagesFactory = std::function<absl::StatusOr<std::vector<std::unique_ptr<Stage>>>(
    const Model& model, const StageOptions& options)>;

enum class Rounding {
  kNone,        // no less than float32 everywhere: every log-probability within 1e-3
  kActivations  // 8-bit or 16-bit activations: bounds by statistics, tokens where the margin is wide
};

// Whether the case's architecture must load.
bool MustLoad(const TinyCase& tiny);

struct Backend {
  StagesFactory make_stages;
  Rounding rounding = Rounding::kNone;
  uint32_t chunk = 32;  // rows per micro-batch
  // Where Unimplemented (of the model or of make_stages) is a failure and not a skip.
  std::function<bool(const TinyCase&)> must_work = MustLoad;
};

// log-softmax in double. A NaN or infinity among the logits gives NaN everywhere.
std::vector<double> LogProbabilities(std::span<const float> logits);

// Compares one tiny model with its reference: logits and tokens of both prompts. Skips the running test, with
// the reason, when the model is not supported and need not be.
void CheckTinyModel(const TinyCase& tiny, const Backend& backend);

// Compares the real model with reference.json. Skips with the reason when model or cases are absent.
void CheckRealModel(const Backend& backend);

}  // namespace spillway::golden
