#include "gateway/http/bounded_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "engine/tokenizer/utf8.h"

namespace spillway::gateway {
namespace {

struct Shape {
  int depth = 0;
  size_t values = 0;
  size_t members = 0;  // of the largest object
};

// An upper bound of what the parser would build, found without building it; right for every valid text.
Shape Measure(std::string_view text) {
  Shape shape;
  int depth = 0;
  // Entries of the containers that are open, as deep as is allowed; 0 for arrays.
  std::array<size_t, kMaxJsonDepth + 1> members = {};
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      shape.depth = std::max(shape.depth, ++depth);
      ++shape.values;
      if (depth > 0 && depth <= kMaxJsonDepth) members[depth] = c == '{' ? 1 : 0;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++shape.values;
      if (depth > 0 && depth <= kMaxJsonDepth && members[depth] > 0) {
        shape.members = std::max(shape.members, ++members[depth]);
      }
    }
  }
  return shape;
}

ApiError BadBody(std::string message) { return {400, std::move(message), "", "invalid_json"}; }

// The member of the body that holds a number no double holds. The parser's own message would name its
// internals instead, so the body is parsed again, noting each member's name.
ApiError NumberOutOfRange(std::string_view body) {
  std::string name;
  const auto note = [&name](int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key) name = value.get<std::string>();
    return true;
  };
  try {
    const Json ignored = Json::parse(body, note);
  } catch (const Json::exception&) {  // as the first time
  }
  name = Shortened(name);
  return InvalidParam(name, fmt::format("{} holds a number out of range, larger than any 64-bit float",
                                        name.empty() ? "the request body" : name));
}

}  // namespace

std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxEchoedBytes) return std::string(text);
  size_t end = kMaxEchoedBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole characters only
  return std::string(text.substr(0, end)) + "…";
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    if (step.kind != Utf8Kind::kCharacter) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::optional<ApiError> ParseJsonObject(std::string_view body, Json* out) {
  if (!IsValidUtf8(body)) return BadBody("the request body is not valid UTF-8");
  const Shape shape = Measure(body);
  if (shape.depth > kMaxJsonDepth) {
    return BadBody(
        fmt::format("the request body is nested {} deep, allowed is {}", shape.depth, kMaxJsonDepth));
  }
  if (shape.values > kMaxJsonValues) {
    return BadBody(
        fmt::format("the request body holds {} values, allowed are {}", shape.values, kMaxJsonValues));
  }
  if (shape.members > kMaxJsonMembers) {
    return BadBody(fmt::format("an object of the request body has {} members, allowed are {}", shape.members,
                               kMaxJsonMembers));
  }
  try {
    *out = Json::parse(body);
  } catch (const Json::parse_error& e) {
    return BadBody(fmt::format("the request body is not valid JSON (at byte {})", e.byte));
  } catch (const Json::exception&) {
    return NumberOutOfRange(body);
  }
  if (!out->is_object())
    return BadBody(fmt::format("the request body is {}, must be an object", JsonKind(*out)));
  return std::nullopt;
}

std::string_view JsonKind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    default:
      return "a number";
  }
}

const Json* FieldReader::Find(const char* name) const {
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool FieldReader::Number(const char* name, const NumberRange& range, float* out) {
  const Json* value = ok() ? Find(name) : nullptr;
  if (value == nullptr) return false;
  const std::string allowed = fmt::format("{}{}, {}{}", range.above_low ? '(' : '[', range.low, range.high,
                                          range.below_high ? ')' : ']');
  if (!value->is_number()) {
    Fail(name, fmt::format("is {}, must be a number in {}", JsonKind(*value), allowed));
    return false;
  }
  const double number = value->get<double>();
  const bool low_ok = range.above_low ? number > range.low : number >= range.low;
  const bool high_ok = range.below_high ? number < range.high : number <= range.high;
  if (!low_ok || !high_ok) {  // NaN fails both
    Fail(name, fmt::format("is {}, allowed is {}", number, allowed));
    return false;
  }
  *out = static_cast<float>(number);
  return true;
}

bool FieldReader::Integer(const char* name, int64_t low, int64_t high, int64_t* out) {
  const Json* value = ok() ? Find(name) : nullptr;
  if (value == nullptr) return false;
  if (!value->is_number_integer()) {
    Fail(name, fmt::format("is {}, must be an integer in [{}, {}]", JsonKind(*value), low, high));
    return false;
  }
  const bool too_large =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (too_large || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    Fail(name, fmt::format("is {}, allowed is [{}, {}]", value->dump(), low, high));
    return false;
  }
  *out = value->get<int64_t>();
  return true;
}

bool FieldReader::Boolean(const char* name, bool* out) {
  const Json* value = ok() ? Find(name) : nullptr;
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    Fail(name, fmt::format("is {}, must be true or false", JsonKind(*value)));
    return false;
  }
  *out = value->get<bool>();
  return true;
}

bool FieldReader::String(const char* name, std::string* out) {
  const Json* value = ok() ? Find(name) : nullptr;
  if (value == nullptr) return false;
  if (!value->is_string()) {
    Fail(name, fmt::format("is {}, must be a string", JsonKind(*value)));
    return false;
  }
  *out = value->get<std::string>();
  return true;
}

void FieldReader::Fail(std::string_view name, std::string_view message, std::string_view code) {
  if (error_.has_value()) return;
  const std::string param = fmt::format("{}{}", prefix_, name);
  error_ = ApiError{400, fmt::format("{} {}", param, message), param, std::string(code)};
}

void FieldReader::Adopt(std::optional<ApiError> error) {
  if (!error_.has_value() && error.has_value()) error_ = std::move(error);
}

}  // namespace spillway::gateway
