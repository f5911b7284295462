// The fuzzer's probe on seeded random schemas, as an ordinary test (run it under ASan too).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/fuzz/schema_probe.h"

namespace spillway::test {
namespace {

using Json = nlohmann::ordered_json;

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  Json Schema(int depth = 0) {
    const auto kind = Below(depth > 3 ? 5 : 12);
    if (kind == 0) return {{"type", "string"}, {"minLength", Below(4)}, {"maxLength", Below(9)}};
    if (kind == 1) return {{"type", "integer"}, {"minimum", Below(50) - 20}, {"maximum", Below(2000) - 10}};
    if (kind == 2) return {{"type", "number"}, {"exclusiveMinimum", (Below(100) - 50) / 8.0}};
    if (kind == 3) return {{"enum", {"a\n\"", Below(9), nullptr, {{"k", 1.5}}}}};
    if (kind == 4) return Json{{"type", {"boolean", "null"}}};
    if (kind == 5) return {{"$ref", Below(2) == 0 ? "#" : "#/$defs/d"}};
    if (kind == 6) return {{"anyOf", {Schema(depth + 1), Schema(depth + 1)}}};
    if (kind == 7) return {{"allOf", {Object(depth), Object(depth)}}};
    if (kind == 8) {
      Json schema = {
          {"type", "array"}, {"items", Schema(depth + 1)}, {"minItems", Below(3)}, {"maxItems", Below(5)}};
      if (Below(2) == 0) schema["prefixItems"] = {Schema(depth + 1), Schema(depth + 1)};
      return schema;
    }
    if (kind == 9) return Json(Below(8) != 0);
    return Object(depth);
  }
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

 private:
  Json Object(int depth) {
    Json schema = {{"type", "object"}};
    for (int i = Below(4); i > 0; --i) schema["properties"][Name()] = Schema(depth + 1);
    if (Below(2) == 0) schema["required"] = Json::array({Name()});
    if (Below(2) == 0) schema["additionalProperties"] = Schema(depth + 1);
    return schema;
  }
  std::string Name() { return std::string(1, static_cast<char>('a' + Below(4))); }

  std::mt19937 random_;
};

TEST(SchemaMutation, NoSchemaBreaksAPromise) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    Maker maker(seed);
    Json schema = maker.Schema();
    if (schema.is_object()) schema["$defs"]["d"] = maker.Schema(2);
    std::string bytes = "ab" + schema.dump();
    if (maker.Below(4) == 0)
      bytes[2 + static_cast<size_t>(maker.Below(static_cast<int>(bytes.size()) - 2))] = '1';
    SCOPED_TRACE(bytes);
    ASSERT_EQ(ProbeSchema(bytes), "");
  }
}

}  // namespace
}  // namespace spillway::test
