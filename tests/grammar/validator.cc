#include "tests/grammar/validator.h"

#include <algorithm>
#include <cmath>

#include "engine/tokenizer/utf8.h"

namespace spillway::test {
namespace {

using Json = nlohmann::ordered_json;

bool IsWhole(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

bool HasType(const Json& value, const Json& type) {
  return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
         (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
         (type == "null" && value.is_null()) || (type == "number" && value.is_number()) ||
         (type == "integer" && value.is_number() && IsWhole(value));
}

size_t Length(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(NextUtf8(text).length);
  return count;
}

std::string CheckNumber(const Json& schema, double value) {
  if (schema.contains("minimum") && value < schema["minimum"].get<double>()) return "below minimum";
  if (schema.contains("maximum") && value > schema["maximum"].get<double>()) return "above maximum";
  if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"].get<double>())
    return "at exclusiveMinimum";
  if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"].get<double>())
    return "at exclusiveMaximum";
  if (schema.contains("multipleOf") && std::fmod(value, schema["multipleOf"].get<double>()) != 0)
    return "no multiple";
  return "";
}

std::string CheckCount(const Json& schema, const std::string& what, size_t count) {
  if (schema.contains("min" + what) && static_cast<double>(count) < schema["min" + what].get<double>())
    return "below min" + what;
  if (schema.contains("max" + what) && static_cast<double>(count) > schema["max" + what].get<double>())
    return "above max" + what;
  return "";
}

std::string CheckObject(const Json& schema, const Json& value, const Json& root, int depth) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return "missing " + name.dump();
  }
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, item] : value.items()) {
    const Json inner =
        properties.contains(name) ? properties[name] : schema.value("additionalProperties", Json(true));
    if (std::string wrong = Violation(inner, item, root, depth + 1); !wrong.empty())
      return name + ": " + wrong;
  }
  return CheckCount(schema, "Properties", value.size());
}

std::string CheckArray(const Json& schema, const Json& value, const Json& root, int depth) {
  const Json prefix = schema.value("prefixItems", Json::array());
  for (size_t i = 0; i < value.size(); ++i) {
    const Json inner = i < prefix.size() ? prefix[i] : schema.value("items", Json(true));
    if (std::string wrong = Violation(inner, value[i], root, depth + 1); !wrong.empty())
      return "item: " + wrong;
  }
  return CheckCount(schema, "Items", value.size());
}

}  // namespace

std::string Violation(const Json& schema, const Json& value, const Json& root, int depth) {
  if (schema == true || depth > 500) return "";
  if (schema == false) return "nothing is allowed";
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    const std::string pointer = reference->get<std::string>();
    const Json& target =
        pointer == "#" || pointer == "#/" ? root : root.at(Json::json_pointer(pointer.substr(1)));
    if (std::string wrong = Violation(target, value, root, depth + 1); !wrong.empty()) return wrong;
  }
  if (const auto type = schema.find("type"); type != schema.end()) {
    const Json types = type->is_array() ? *type : Json::array({*type});
    if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return HasType(value, t); }))
      return value.dump(-1, ' ', false, Json::error_handler_t::replace) + " has not the type";
  }
  if (schema.contains("const") && value != schema["const"]) return "not the const";
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return "not in enum";
  for (const Json& part : schema.value("allOf", Json::array())) {
    if (std::string wrong = Violation(part, value, root, depth + 1); !wrong.empty()) return "allOf: " + wrong;
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    const auto matches =
        std::count_if(schema[keyword].begin(), schema[keyword].end(),
                      [&](const Json& branch) { return Violation(branch, value, root, depth + 1).empty(); });
    if (matches == 0 || (matches > 1 && keyword[0] == 'o')) return std::string(keyword) + " is not satisfied";
  }
  if (value.is_object()) return CheckObject(schema, value, root, depth);
  if (value.is_array()) return CheckArray(schema, value, root, depth);
  if (value.is_number()) return CheckNumber(schema, value.get<double>());
  if (value.is_string()) return CheckCount(schema, "Length", Length(value.get_ref<const std::string&>()));
  return "";
}

}  // namespace spillway::test
