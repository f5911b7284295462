// Rows of the table of architectures.
#include "engine/model/architecture.h"

#include <fmt/ranges.h>

#include <vector>

#include "engine/base/status.h"

namespace spillway::model {
namespace {

// llama's converter permutes q and k so that rotated pairs are adjacent; the others keep halves.
constexpr Architecture kArchitectures[] = {
    {"llama", RopeKind::kNorm, Presence::kOptional, Presence::kOptional, /*qk_norm=*/false},
    {"qwen2", RopeKind::kNeox, Presence::kRequired, Presence::kAbsent, /*qk_norm=*/false},
    {"qwen3", RopeKind::kNeox, Presence::kAbsent, Presence::kAbsent, /*qk_norm=*/true},
};

}  // namespace

absl::StatusOr<const Architecture*> FindArchitecture(std::string_view name) {
  std::vector<std::string_view> supported;
  for (const Architecture& row : kArchitectures) {
    if (row.name == name) return &row;
    supported.push_back(row.name);
  }
  return Unimplemented("general.architecture '{}' is not supported; supported are: {}", name,
                       fmt::join(supported, ", "));
}

}  // namespace spillway::model
