// See units_text.h.
#include "engine/stage/units_text.h"

#include <fmt/format.h>

#include "engine/base/status.h"

namespace spillway {

std::string FormatLayers(uint32_t begin, uint32_t end) {
  if (end <= begin) return "none";
  return end - begin == 1 ? std::to_string(begin) : fmt::format("{}-{}", begin, end - 1);
}

std::string_view CacheTypeName(CacheType type) { return type == CacheType::kF16 ? "f16" : "q8_0"; }

absl::StatusOr<CacheType> ParseCacheType(std::string_view name) {
  for (const CacheType type : {CacheType::kF16, CacheType::kQ8_0}) {
    if (name == CacheTypeName(type)) return type;
  }
  return InvalidArgument("cache type '{}' is not supported; supported are: f16, q8_0", name);
}

std::string DescribeUnits(const StageUnits& units) {
  std::string text = units.embedding ? "embedding" : "";
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " + ") + part; };
  if (units.layer_end > units.layer_begin) {
    add((units.Layers() == 1 ? "layer " : "layers ") + FormatLayers(units.layer_begin, units.layer_end));
  }
  if (units.head) add("head");
  return text;
}

}  // namespace spillway
