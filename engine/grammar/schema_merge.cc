#include "engine/grammar/schema_merge.h"

#include <algorithm>

#include "engine/base/status.h"

namespace spillway::grammar {
namespace {

constexpr size_t kMaxPairs = 100'000;  // of values compared with each other

Schema Both(const Schema& a, const Schema& b) {
  return a == b ? a : Schema{{"allOf", Schema::array({a, b})}};
}

// What a schema says of a property it does not name.
Schema Additional(const Schema& schema) {
  const auto found = schema.find("additionalProperties");
  return found == schema.end() ? Schema(true) : *found;
}

// The property under both; one names it or both do.
Schema PropertyUnder(const Schema& schema, const std::string& name) {
  const auto properties = schema.find("properties");
  if (properties != schema.end() && properties->is_object() && properties->contains(name))
    return (*properties)[name];
  return Additional(schema);
}

void MergeObjects(const Schema& a, const Schema& b, Schema* out) {
  Schema properties = Schema::object();
  for (const Schema* schema : {&a, &b}) {
    const auto own = schema->find("properties");
    if (own == schema->end() || !own->is_object()) continue;
    for (const auto& [name, value] : own->items()) {
      const Schema left = PropertyUnder(a, name);
      const Schema right = PropertyUnder(b, name);
      properties[name] = left == true ? right : right == true ? left : Both(left, right);
    }
  }
  if (a.contains("properties") || b.contains("properties")) (*out)["properties"] = properties;
  const bool has_a = a.contains("additionalProperties");
  const bool has_b = b.contains("additionalProperties");
  if (has_a && has_b) {
    (*out)["additionalProperties"] = Both(a["additionalProperties"], b["additionalProperties"]);
  } else if (has_a || has_b) {
    (*out)["additionalProperties"] = has_a ? a["additionalProperties"] : b["additionalProperties"];
  }
}

Schema Union(const Schema& a, const Schema& b) {
  Schema out = a;
  for (const Schema& item : b) {
    if (std::find(out.begin(), out.end(), item) == out.end()) out.push_back(item);
  }
  return out;
}

Schema Common(const Schema& a, const Schema& b) {
  Schema out = Schema::array();
  for (const Schema& item : a) {
    if (std::find(b.begin(), b.end(), item) != b.end()) out.push_back(item);
  }
  return out;
}

bool IsLowerBound(const std::string& key) {
  return key == "minLength" || key == "minItems" || key == "minProperties" || key == "minimum" ||
         key == "exclusiveMinimum";
}
bool IsUpperBound(const std::string& key) {
  return key == "maxLength" || key == "maxItems" || key == "maxProperties" || key == "maximum" ||
         key == "exclusiveMaximum";
}

}  // namespace

std::vector<std::string> TypesOf(const Schema& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) return {"object", "array", "string", "number", "boolean", "null"};
  if (type->is_string()) return {type->get<std::string>()};
  std::vector<std::string> types;
  for (const Schema& item : *type) {
    if (item.is_string()) types.push_back(item.get<std::string>());
  }
  return types;
}

absl::StatusOr<Schema> MergeSchemas(const Schema& a, const Schema& b) {
  if (a == true) return b;
  if (b == true) return a;
  if (!a.is_object() || !b.is_object()) return Schema(false);
  Schema out = a;
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) {
      out[key] = value;
      continue;
    }
    const Schema& present = a[key];
    if (present == value || key == "properties" || key == "additionalProperties") continue;
    if (key == "required" && present.is_array() && value.is_array()) {
      out[key] = Union(present, value);
    } else if (key == "enum" && present.size() * value.size() > kMaxPairs) {
      return InvalidArgument("two long lists in '{}' cannot be combined", key);
    } else if (key == "enum" && present.is_array() && value.is_array()) {
      out[key] = Common(present, value);
    } else if (IsLowerBound(key) && present.is_number() && value.is_number()) {
      out[key] =
          std::max(present.get<double>(), value.get<double>()) == present.get<double>() ? present : value;
    } else if (IsUpperBound(key) && present.is_number() && value.is_number()) {
      out[key] =
          std::min(present.get<double>(), value.get<double>()) == present.get<double>() ? present : value;
    } else if (key == "items") {
      out[key] = Both(present, value);
    } else if (key == "type") {
      Schema types = Schema::array();
      const auto others = TypesOf(b);
      for (const std::string& type : TypesOf(a)) {
        const auto has = [&](const char* name) {
          return std::find(others.begin(), others.end(), name) != others.end();
        };
        if (std::find(others.begin(), others.end(), type) != others.end()) {
          types.push_back(type);
        } else if ((type == "integer" && has("number")) || (type == "number" && has("integer"))) {
          types.push_back("integer");
        }
      }
      if (types.empty()) return Schema(false);
      out[key] = types;
    } else if (key == "const") {
      return Schema(false);
    } else if (key == "title" || key == "description" || key == "default" || key == "examples" ||
               key == "$comment" || key == "$schema" || key == "$id" || key == "$defs" ||
               key == "definitions") {
      continue;
    } else {
      return InvalidArgument("two different '{}' cannot be combined", key);
    }
  }
  MergeObjects(a, b, &out);
  return out;
}

}  // namespace spillway::grammar
