// An independent check of a value against a schema, for the keywords that say something of structure.
// Patterns and formats are left to tests/grammar/check_schemas.py.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace spillway::test {

// What is wrong; empty where the value is valid.
std::string Violation(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value,
                      const nlohmann::ordered_json& root, int depth = 0);

}  // namespace spillway::test
