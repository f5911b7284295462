// Tiny models of the architectures that differ by more than a row of flags, and of the forms in which files
// hold the same weights, for tests of law 1 and of the plan where no golden data is.
#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <string_view>

#include "engine/model/config.h"

namespace spillway::tiny {

struct TinyKind {
  std::string_view name;
  std::string_view same_as;  // another kind with the same weights in another form; or empty
};

// deepseek2 with and without a query latent, with one tensor of keys and values; llama4 with chunks of 16;
// Mixtral with fused and with single experts.
std::span<const TinyKind> TinyKinds();

// Row lengths are multiples of 32, so `matrices` may be any format of blocks of 32 that has a quantizer.
absl::StatusOr<Model> LoadTinyKind(std::string_view name, TensorType matrices = TensorType::kF16);

}  // namespace spillway::tiny
