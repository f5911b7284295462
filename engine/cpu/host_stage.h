// The host backend: a Stage on CPU cores with SIMD kernels chosen at run time. Its memory is laid out by one
// function that the planner calls to estimate and CreateHostStage calls to allocate.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/model/config.h"
#include "engine/stage/stage.h"

namespace spillway::cpu {

enum class Isa : uint8_t { kScalar, kAvx2 };
// The best level of this machine, or the one SPILLWAY_ISA names ("scalar", "avx2") if the machine has it.
Isa DetectIsa();
std::string_view IsaName(Isa isa);

// Bytes by purpose of a stage, from the header alone.
absl::StatusOr<PurposeBytes> HostStageBytes(const Model& model, const StageUnits& units,
                                            const StageOptions& options);

// `model` and `ledger` outlive the stage. ResourceExhausted when the ledger's budget is too small: then
// nothing stays booked. `progress` (may be empty) is called with bytes laid out so far.
absl::StatusOr<std::unique_ptr<Stage>> CreateHostStage(const Model& model, const StageUnits& units,
                                                       const StageOptions& options, Ledger& ledger,
                                                       std::function<void(uint64_t)> progress = {});

// Same on a given ISA level (tests of law 1). FailedPrecondition when the machine lacks it.
absl::StatusOr<std::unique_ptr<Stage>> CreateHostStageOn(Isa isa, const Model& model, const StageUnits& units,
                                                         const StageOptions& options, Ledger& ledger);

}  // namespace spillway::cpu
