// Typed look-ups in parsed metadata, for use before a GgufFile exists. `path` is for messages only.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/gguf/parse.h"

namespace spillway {

// nullopt when absent; InvalidArgument when the value is not an integer of at least 0.
absl::StatusOr<std::optional<uint64_t>> LookUpUint(const std::string& path, const GgufMetadata& metadata,
                                                   std::string_view key);

}  // namespace spillway
