#include "tests/fuzz/schema_probe.h"

#include <fmt/format.h>

#include "engine/grammar/constraint.h"
#include "tests/grammar/sampling.h"
#include "tests/grammar/validator.h"

namespace spillway::test {

std::string ProbeSchema(std::string_view bytes) {
  using Json = nlohmann::ordered_json;
  constexpr size_t kMaxDepth = 200;  // the API bounds what it parses; nlohmann's destructor recurses
  if (bytes.size() < 2) return "";
  const uint32_t seed = static_cast<uint8_t>(bytes[0]) * 256u + static_cast<uint8_t>(bytes[1]);
  bytes.remove_prefix(2);
  size_t depth = 0;
  size_t deepest = 0;
  for (const char c : bytes) {
    depth += c == '[' || c == '{' ? 1 : 0;
    deepest = std::max(deepest, depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  if (deepest > kMaxDepth) return "";
  const Json schema = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded()) return "";
  static const auto* const vocabulary = new std::shared_ptr<const grammar::TokenTrie>(SmallVocabulary());
  const auto constraint = grammar::Constraint::FromSchema(schema, *vocabulary);
  if (!constraint.ok()) return "";
  for (uint32_t draw = 0; draw < 2; ++draw) {
    const Sample sample = DrawSample(*constraint, **vocabulary, seed + draw, 200);
    if (!sample.error.empty()) {
      if (sample.error.starts_with("limit")) return "";
      return sample.error;
    }
    if (!sample.ended) continue;
    const Json value = Json::parse(sample.text, nullptr, false);
    if (value.is_discarded()) return "no JSON: " + sample.text;
    const std::string wrong = Violation(schema, value, schema);
    if (!wrong.empty()) return fmt::format("{} for {}", wrong, sample.text);
  }
  return "";
}

}  // namespace spillway::test
