// The conjunction of two JSON schemas of simple kinds as one schema: what allOf and keywords beside $ref or
// anyOf mean.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>

namespace spillway::grammar {

using Schema = nlohmann::ordered_json;

// Neither has $ref or allOf at its top. InvalidArgument names the keyword that cannot be combined.
absl::StatusOr<Schema> MergeSchemas(const Schema& a, const Schema& b);

// The types a schema's `type` names, all seven where it has none; "number" stands for "integer", too.
std::vector<std::string> TypesOf(const Schema& schema);

}  // namespace spillway::grammar
