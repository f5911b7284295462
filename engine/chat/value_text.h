// Values as text, the way Python writes them: str(), repr() and json.dumps(); and values from JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/chat/value.h"

namespace spillway::jinja {

// str(value); "" for an undefined one.
std::string ToText(Context& context, const Value& value);
std::string ToRepr(Context& context, const Value& value);
std::string FloatText(double value);

struct JsonStyle {
  std::optional<std::string> indent;  // of a level; none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
// json.dumps(). Fails for what has no JSON form.
std::string ToJson(Context& context, const Value& value, const JsonStyle& style);

// Fails where it nests too deep.
Value FromJson(Context& context, const nlohmann::ordered_json& json);

}  // namespace spillway::jinja
