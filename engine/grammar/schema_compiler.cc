// References, combinations, values and the choice of types.
#include "engine/grammar/schema_compiler.h"

#include <algorithm>

#include "engine/base/status.h"
#include "engine/grammar/schema_builder.h"

namespace spillway::grammar {
namespace {

constexpr std::string_view kAnnotations[] = {
    "title",    "description", "default",    "examples",         "$schema",         "$id",   "$comment",
    "readOnly", "writeOnly",   "deprecated", "contentMediaType", "contentEncoding", "$defs", "definitions"};
constexpr std::string_view kAssertions[] = {"type",
                                            "enum",
                                            "const",
                                            "properties",
                                            "required",
                                            "additionalProperties",
                                            "items",
                                            "prefixItems",
                                            "minItems",
                                            "maxItems",
                                            "minLength",
                                            "maxLength",
                                            "pattern",
                                            "format",
                                            "minimum",
                                            "maximum",
                                            "exclusiveMinimum",
                                            "exclusiveMaximum",
                                            "multipleOf",
                                            "anyOf",
                                            "oneOf",
                                            "allOf",
                                            "$ref",
                                            "minProperties",
                                            "maxProperties"};
constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

template <size_t n>
bool Has(const std::string_view (&list)[n], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// Keywords that ask for nothing with this value.
bool AsksNothing(const std::string& key, const Schema& value) {
  return key == "uniqueItems" && value == false;
}

std::string_view TypeOfValue(const Schema& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  const bool whole =
      value.is_number_integer() ||
      (value.is_number_float() && value.get<double>() == static_cast<double>(static_cast<int64_t>(
                                                             std::clamp(value.get<double>(), -9e15, 9e15))));
  return whole ? "integer" : "number";
}

bool TypeAllows(const Schema& schema, const Schema& value) {
  if (!schema.contains("type")) return true;
  const std::string_view type = TypeOfValue(value);
  for (const std::string& allowed : TypesOf(schema)) {
    if (allowed == type || (allowed == "number" && type == "integer")) return true;
  }
  return false;
}

// Enum or const as a list, nullptr where the schema has neither.
const Schema* ValuesOf(const Schema& schema, Schema* storage) {
  if (!schema.is_object()) return nullptr;
  if (const auto one = schema.find("const"); one != schema.end()) {
    *storage = Schema::array({*one});
    return storage;
  }
  const auto list = schema.find("enum");
  return list != schema.end() && list->is_array() ? &*list : nullptr;
}

bool NoValueInBoth(const Schema& a, const Schema& b) {
  return std::none_of(a.begin(), a.end(),
                      [&b](const Schema& value) { return std::find(b.begin(), b.end(), value) != b.end(); });
}

// Whether nothing can satisfy both, as far as types, values and a property that tells them apart show.
bool Disjoint(const Schema& a, const Schema& b) {
  if (a == false || b == false) return true;
  if (!a.is_object() || !b.is_object()) return false;
  Schema first;
  Schema second;
  const Schema* values = ValuesOf(a, &first);
  const Schema* others = ValuesOf(b, &second);
  if (values != nullptr && others != nullptr) return NoValueInBoth(*values, *others);
  const auto allowed_nowhere = [](const Schema& list, const Schema& schema) {
    return std::none_of(list.begin(), list.end(),
                        [&schema](const Schema& value) { return TypeAllows(schema, value); });
  };
  if (values != nullptr) return allowed_nowhere(*values, b);
  if (others != nullptr) return allowed_nowhere(*others, a);
  bool shares_type = false;
  const auto types = TypesOf(b);
  for (const std::string& type : TypesOf(a)) {
    for (const std::string& other : types) {
      shares_type = shares_type || type == other || (type == "integer" && other == "number") ||
                    (type == "number" && other == "integer");
    }
  }
  if (!shares_type) return true;
  if (TypesOf(a) != std::vector<std::string>{"object"} || TypesOf(b) != std::vector<std::string>{"object"})
    return false;
  if (!a.contains("properties") || !b.contains("properties") || !a.contains("required") ||
      !b.contains("required"))
    return false;
  const auto requires_name = [](const Schema& schema, const std::string& name) {
    const Schema& list = schema["required"];
    return list.is_array() && std::find(list.begin(), list.end(), Schema(name)) != list.end();
  };
  for (const auto& [name, left] : a["properties"].items()) {
    const auto right = b["properties"].find(name);
    if (right == b["properties"].end() || !requires_name(a, name) || !requires_name(b, name)) continue;
    Schema left_storage;
    Schema right_storage;
    const Schema* left_values = ValuesOf(left, &left_storage);
    const Schema* right_values = ValuesOf(*right, &right_storage);
    if (left_values != nullptr && right_values != nullptr && NoValueInBoth(*left_values, *right_values))
      return true;
  }
  return false;
}

Schema Without(const Schema& schema, std::string_view key) {
  Schema rest = schema;
  rest.erase(std::string(key));
  return rest;
}

bool OnlyAnnotations(const Schema& schema) {
  for (const auto& [key, value] : schema.items()) {
    if (!Has(kAnnotations, key)) return false;
  }
  return true;
}

// "a~1b%20c" of a JSON pointer in a fragment.
std::string Unescaped(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size()) {
      out += part[++i] == '1' ? '/' : '~';
    } else if (part[i] == '%' && i + 2 < part.size()) {
      const auto digit = [](char c) {
        return c >= '0' && c <= '9'                     ? c - '0'
               : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                        : 0;
      };
      out += static_cast<char>(digit(part[i + 1]) * 16 + digit(part[i + 2]));
      i += 2;
    } else {
      out += part[i];
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<Grammar> CompileSchema(const nlohmann::ordered_json& schema) {
  const size_t bytes = schema.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).size();
  if (bytes > kMaxSchemaBytes)
    return ResourceExhausted("the schema has {} bytes, at most {}", bytes, kMaxSchemaBytes);
  return SchemaBuilder(schema).Build();
}

absl::StatusOr<Grammar> SchemaBuilder::Build() {
  const Node value = grammar_.AddPlaceholder();
  references_.emplace("#", value);
  grammar_.Fill(value, Compile({root_, "#"}));
  const Node root = grammar_.AddSequence({Space(), value});
  if (!error_.ok()) return error_;
  grammar_.Finish(root);
  if (grammar_.Need(root) == Grammar::kNever) return InvalidArgument("no value can satisfy the schema");
  return std::move(grammar_);
}

void SchemaBuilder::Fail(const Place& place, std::string_view keyword, std::string_view what) {
  if (error_.ok()) error_ = InvalidArgument("schema keyword '{}' at {} {}", keyword, place.path, what);
}

void SchemaBuilder::Adopt(const Place& place, std::string_view keyword, const absl::Status& status) {
  if (!status.ok()) Fail(place, keyword, fmt::format("cannot be used: {}", MessageOf(status)));
}

SchemaBuilder::Node SchemaBuilder::Compile(const Place& place) {
  if (!error_.ok()) return 0;
  if (place.schema.is_boolean()) return place.schema == true ? AnyValue() : grammar_.AddChoice({});
  if (!place.schema.is_object()) {
    error_ = InvalidArgument("the schema at {} is neither an object nor true or false", place.path);
    return 0;
  }
  if (++compiled_ > kMaxSchemaNodes || grammar_.nodes().size() > kMaxGrammarNodes ||
      states_ > kMaxAutomatonStates) {
    error_ = ResourceExhausted(
        "the schema is too large: at most {} subschemas, {} parts and {} automaton states, passed at {}",
        kMaxSchemaNodes, kMaxGrammarNodes, kMaxAutomatonStates, place.path);
    return 0;
  }
  if (place.depth > kMaxSchemaDepth) {
    error_ = ResourceExhausted("the schema nests deeper than {} levels, at {}", kMaxSchemaDepth,
                               place.path.substr(0, 200));
    return 0;
  }
  return CompileObject(place);
}

bool SchemaBuilder::CheckKeywords(const Place& place) {
  for (const auto& [key, value] : place.schema.items()) {
    if (Has(kAnnotations, key) || Has(kAssertions, key) || key.starts_with("x-") || AsksNothing(key, value))
      continue;
    Fail(place, key.substr(0, 60), "is not supported");
    return false;
  }
  if (const auto type = place.schema.find("type"); type != place.schema.end()) {
    if (!type->is_string() && !type->is_array()) Fail(place, "type", "is neither a string nor an array");
    for (const std::string& name : TypesOf(place.schema)) {
      if (!Has(kTypes, name))
        Fail(place, "type", fmt::format("names '{}', which is no type", name.substr(0, 40)));
    }
  }
  return error_.ok();
}

SchemaBuilder::Node SchemaBuilder::CompileObject(const Place& place) {
  const Schema& schema = place.schema;
  if (!CheckKeywords(place)) return 0;
  if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string()) {
    if (OnlyAnnotations(Without(schema, "$ref")))
      return CompileReference(reference->get<std::string>(), place);
  }
  if (schema.contains("$ref") || schema.contains("allOf")) {
    const absl::StatusOr<Schema> flat = Flatten(schema, place, 0);
    if (!flat.ok()) {
      Adopt(place, schema.contains("allOf") ? "allOf" : "$ref", flat.status());
      return 0;
    }
    return Compile({*flat, place.path, place.depth + 1});
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (schema.contains(keyword)) return CompileBranches(place, keyword);
  }
  if (schema.contains("enum") || schema.contains("const")) return CompileValues(place);
  return CompileTypes(place);
}

const Schema* SchemaBuilder::Resolve(const std::string& pointer) {
  if (pointer == "#" || pointer == "#/") return &root_;
  if (!pointer.starts_with("#/")) return nullptr;
  const Schema* at = &root_;
  for (size_t begin = 2; begin <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string key = Unescaped(std::string_view(pointer).substr(begin, end - begin));
    if (at->is_object() && at->contains(key)) {
      at = &(*at)[key];
    } else if (at->is_array() && !key.empty() && key.size() < 6 &&
               key.find_first_not_of("0123456789") == std::string::npos && std::stoul(key) < at->size()) {
      at = &(*at)[std::stoul(key)];
    } else {
      return nullptr;
    }
    begin = end + 1;
  }
  return at;
}

SchemaBuilder::Node SchemaBuilder::CompileReference(const std::string& pointer, const Place& place) {
  if (const auto known = references_.find(pointer); known != references_.end()) return known->second;
  const Schema* target = Resolve(pointer);
  if (target == nullptr) {
    Fail(place, "$ref", fmt::format("names '{}', which is not in the schema", pointer.substr(0, 80)));
    return 0;
  }
  const Node node = grammar_.AddPlaceholder();
  references_.emplace(pointer, node);
  grammar_.Fill(node, Compile({*target, pointer, place.depth + 1}));
  return node;
}

absl::StatusOr<Schema> SchemaBuilder::Flatten(const Schema& schema, const Place& place, int depth) {
  if (!schema.is_object()) return schema;
  if (depth > kMaxSchemaDepth) return InvalidArgument("it refers to itself");
  Schema merged = Without(Without(schema, "$ref"), "allOf");
  std::vector<const Schema*> parts;
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    const Schema* target = reference->is_string() ? Resolve(reference->get<std::string>()) : nullptr;
    if (target == nullptr) return InvalidArgument("{} is not in the schema", reference->dump().substr(0, 80));
    parts.push_back(target);
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array() || all->empty()) return InvalidArgument("allOf is no list of schemas");
    for (const Schema& part : *all) parts.push_back(&part);
  }
  for (const Schema* part : parts) {
    if (++merged_ > kMaxMerges) return ResourceExhausted("more than {} schemas are joined", kMaxMerges);
    SPILLWAY_ASSIGN_OR_RETURN(const Schema flat, Flatten(*part, place, depth + 1));
    SPILLWAY_ASSIGN_OR_RETURN(merged, MergeSchemas(flat, merged));
  }
  return merged;
}

SchemaBuilder::Node SchemaBuilder::CompileBranches(const Place& place, const char* keyword) {
  const Schema& list = place.schema[keyword];
  if (!list.is_array() || list.empty()) {
    Fail(place, keyword, "is no list of schemas");
    return 0;
  }
  const Schema base = Without(place.schema, keyword);
  const bool plain = OnlyAnnotations(base);
  std::vector<Schema> branches;
  std::vector<Node> nodes;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!plain && ++merged_ > kMaxMerges)
      Fail(place, keyword, fmt::format("joins more than {} schemas", kMaxMerges));
    if (!error_.ok()) return 0;
    const Place inner = place.At(list[i], fmt::format("{}/{}", keyword, i));
    const absl::StatusOr<Schema> flat = Flatten(list[i], inner, 0);
    const absl::StatusOr<Schema> merged = plain || !flat.ok() ? flat : MergeSchemas(base, *flat);
    Adopt(inner, keyword, merged.status());
    if (!error_.ok()) return 0;
    branches.push_back(*merged);
    // By itself where nothing is added to it, so that references in it are compiled once.
    nodes.push_back(plain ? Compile(inner) : Compile({branches.back(), inner.path, inner.depth}));
  }
  if (std::string_view(keyword) == "oneOf" && !CheckDisjoint(branches, place)) return 0;
  return grammar_.AddChoice(std::move(nodes));
}

bool SchemaBuilder::CheckDisjoint(const std::vector<Schema>& branches, const Place& place) {
  if (branches.size() > 200) Fail(place, "oneOf", "has more than 200 branches");
  for (size_t i = 0; i < branches.size() && error_.ok(); ++i) {
    for (size_t k = i + 1; k < branches.size(); ++k) {
      if (Disjoint(branches[i], branches[k])) continue;
      Fail(place, "oneOf",
           fmt::format(
               "is supported where its branches exclude each other (by type, value or a required property "
               "with other values); branches {} and {} do not: use anyOf",
               i, k));
      break;
    }
  }
  return error_.ok();
}

SchemaBuilder::Node SchemaBuilder::CompileValues(const Place& place) {
  for (const auto& [key, value] : place.schema.items()) {
    if (Has(kAssertions, key) && key != "enum" && key != "const" && key != "type")
      Fail(place, key, "is not supported beside enum or const");
  }
  if (place.schema.contains("enum") && !place.schema["enum"].is_array()) Fail(place, "enum", "is no list");
  if (place.schema.contains("enum") && place.schema["enum"].size() > kMaxEnumValues)
    Fail(place, "enum", fmt::format("has more than {} values", kMaxEnumValues));
  if (!error_.ok()) return 0;
  Schema values =
      place.schema.contains("enum") ? place.schema["enum"] : Schema::array({place.schema["const"]});
  std::vector<Node> nodes;
  for (const Schema& value : values) {
    if (!TypeAllows(place.schema, value)) continue;
    if (place.schema.contains("const") && value != place.schema["const"]) continue;
    if (grammar_.nodes().size() > kMaxGrammarNodes) break;
    nodes.push_back(Literal(value.dump(-1, ' ', false, Schema::error_handler_t::replace)));
  }
  return grammar_.AddChoice(std::move(nodes));
}

// Without `type`, the one that the other keywords are about: a value of another type would satisfy them, too,
// but is hardly what is meant.
SchemaBuilder::Node SchemaBuilder::CompileTypes(const Place& place) {
  static constexpr std::pair<std::string_view, const char*> kImplied[] = {
      {"properties", "object"},       {"required", "object"},         {"additionalProperties", "object"},
      {"minProperties", "object"},    {"maxProperties", "object"},    {"items", "array"},
      {"prefixItems", "array"},       {"minItems", "array"},          {"maxItems", "array"},
      {"minLength", "string"},        {"maxLength", "string"},        {"pattern", "string"},
      {"format", "string"},           {"minimum", "number"},          {"maximum", "number"},
      {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}, {"multipleOf", "integer"}};
  std::vector<std::string> types;
  if (place.schema.contains("type")) {
    types = TypesOf(place.schema);
    const bool number = std::find(types.begin(), types.end(), "number") != types.end();
    if (number) std::erase(types, "integer");
  } else {
    for (const auto& [keyword, type] : kImplied) {
      if (place.schema.contains(std::string(keyword)) &&
          std::find(types.begin(), types.end(), type) == types.end())
        types.emplace_back(type);
    }
    if (types.empty()) return AnyValue();
  }
  std::vector<Node> nodes;
  for (const std::string& type : types) nodes.push_back(CompileType(type, place));
  return nodes.size() == 1 ? nodes.front() : grammar_.AddChoice(std::move(nodes));
}

SchemaBuilder::Node SchemaBuilder::CompileType(const std::string& type, const Place& place) {
  if (type == "object") return Object(place);
  if (type == "array") return Array(place);
  if (type == "string") return String(place);
  if (type == "integer") return Integer(place);
  if (type == "number") return Number(place);
  if (type == "boolean") return grammar_.AddChoice({Literal("true"), Literal("false")});
  return Literal("null");
}

}  // namespace spillway::grammar
