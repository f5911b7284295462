// The suffix has a fixed width: "-00001-of-00003.gguf".
#include "engine/gguf/shards.h"

#include <fmt/format.h>

#include <string_view>

namespace spillway {
namespace {

std::optional<uint32_t> FiveDigits(std::string_view text) {
  uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

}  // namespace

std::optional<ShardName> ParseShardName(const std::string& path) {
  constexpr std::string_view kShape = "-NNNNN-of-NNNNN.gguf";
  if (path.size() <= kShape.size()) return std::nullopt;
  const std::string_view suffix = std::string_view(path).substr(path.size() - kShape.size());
  if (suffix[0] != '-' || suffix.substr(6, 4) != "-of-" || !suffix.ends_with(".gguf")) return std::nullopt;
  const std::optional<uint32_t> number = FiveDigits(suffix.substr(1, 5));
  const std::optional<uint32_t> count = FiveDigits(suffix.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return ShardName{path.substr(0, path.size() - kShape.size()), *number, *count};
}

std::string ShardPath(const ShardName& name, uint32_t number) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, number, name.count);
}

}  // namespace spillway
