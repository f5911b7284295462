// A JSON schema → the grammar of its values as JSON text. Supported: types, enum, const, properties (written
// in the schema's order), required, additionalProperties, items, prefixItems, minItems, maxItems, minLength,
// maxLength, pattern, the usual formats, bounds of numbers, anyOf, allOf, oneOf whose branches exclude each
// other, $ref within the schema, recursion. Anything else is an error that names it: never a keyword dropped.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>

#include "engine/grammar/grammar.h"

namespace spillway::grammar {

inline constexpr size_t kMaxSchemaNodes = 5'000;  // subschemas compiled
inline constexpr size_t kMaxGrammarNodes = 100'000;
inline constexpr size_t kMaxAutomatonStates = 60'000;  // of all patterns, formats and numbers together
inline constexpr int kMaxSchemaDepth = 64;
inline constexpr size_t kMaxSchemaBytes = size_t{256} << 10;
inline constexpr size_t kMaxPatterns = 100;  // different ones, formats included
inline constexpr size_t kMaxMerges = 500;    // of schemas joined by allOf, or beside $ref, anyOf and oneOf
inline constexpr size_t kMaxEnumValues = 2000;

// InvalidArgument: "schema keyword 'not' at #/properties/a is not supported". ResourceExhausted names the
// limit.
absl::StatusOr<Grammar> CompileSchema(const nlohmann::ordered_json& schema);

}  // namespace spillway::grammar
