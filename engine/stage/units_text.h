// Layers, units and types of pages as people read them, the same in plans, tables, pages and logs: "0-25" is
// inclusive, as model cards count blocks. Numbers for programs stay half-open.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "engine/stage/stage.h"

namespace spillway {

// Layers [begin, end): "0-25", "7", "none".
std::string FormatLayers(uint32_t begin, uint32_t end);

// "f16", "q8_0".
std::string_view CacheTypeName(CacheType type);
// InvalidArgument lists the names.
absl::StatusOr<CacheType> ParseCacheType(std::string_view name);

// "embedding + layers 0-11", "layer 12 + head", "head".
std::string DescribeUnits(const StageUnits& units);

}  // namespace spillway
