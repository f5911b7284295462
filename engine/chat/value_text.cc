// One writer per form. Each step is charged: a small list that shares its parts can print without end.
#include "engine/chat/value_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/tokenizer/utf8.h"

namespace spillway::jinja {
namespace {

// Whether repr() writes the character as it is: an approximation of Python's isprintable() by blocks.
bool IsPrintable(uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) return false;
  return !(c >= 0x2028 && c <= 0x202E) && !(c >= 0x2000 && c <= 0x200F) && c != 0x202F && c != 0x205F &&
         c != 0x3000 && c != 0xFEFF && !(c >= 0xE000 && c <= 0xF8FF) && c < 0xE0000;
}

void AppendRepr(const std::string& text, std::string& out) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  out += quote;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Step step = NextUtf8(rest);
    const uint32_t c = step.code_point;
    if (step.kind != Utf8Kind::kCharacter) {
      out += kReplacementCharacter;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (IsPrintable(c)) {
      out += rest.substr(0, step.length);
    } else {
      out += c < 0x100     ? fmt::format("\\x{:02x}", c)
             : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                           : fmt::format("\\U{:08x}", c);
    }
    rest.remove_prefix(step.length);
  }
  out += quote;
}

void AppendJsonString(const std::string& text, bool ensure_ascii, std::string& out) {
  out += '"';
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Step step = NextUtf8(rest);
    const uint32_t c = step.code_point;
    if (step.kind != Utf8Kind::kCharacter) {
      out += kReplacementCharacter;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
      out += c == 0x7F ? "\x7F" : fmt::format("\\u{:04x}", c);
    } else if (ensure_ascii && c >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
    } else {
      out += rest.substr(0, step.length);
    }
    rest.remove_prefix(step.length);
  }
  out += '"';
}

void AppendValue(Context& context, const Value& value, bool repr, std::string& out) {
  if (!context.Charge(1)) return;
  if (value.is_undefined()) {
    out += repr ? "Undefined" : "";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += value.boolean() ? "True" : "False";
  } else if (value.is_integer()) {
    out += fmt::to_string(value.integer());
  } else if (value.is_float()) {
    out += FloatText(value.number());
  } else if (value.is_string()) {
    if (!context.ChargeBytes(value.string().size())) return;
    if (repr) {
      AppendRepr(value.string(), out);
    } else {
      out += value.string();
    }
  } else if (value.is_list()) {
    const List& list = value.list();
    out += list.is_tuple ? '(' : '[';
    for (size_t i = 0; i < list.items.size() && !context.failed(); ++i) {
      if (i > 0) out += ", ";
      AppendValue(context, list.items[i], true, out);
    }
    if (list.is_tuple && list.items.size() == 1) out += ',';
    out += list.is_tuple ? ')' : ']';
  } else if (value.is_dict()) {
    const auto& entries = value.dict().entries;
    out += '{';
    for (size_t i = 0; i < entries.size() && !context.failed(); ++i) {
      if (i > 0) out += ", ";
      AppendValue(context, entries[i].first, true, out);
      out += ": ";
      AppendValue(context, entries[i].second, true, out);
    }
    out += '}';
  } else {
    out += fmt::format("<{}>", TypeName(value));
  }
}

class JsonWriter {
 public:
  JsonWriter(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  void Write(const Value& value, int64_t level) {
    if (!context_.Charge(1)) return;
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.is_integer()) {
      out_ += fmt::to_string(value.integer());
    } else if (value.is_float()) {
      out_ += std::isfinite(value.number()) ? FloatText(value.number())
              : std::isnan(value.number())  ? "NaN"
              : value.number() > 0          ? "Infinity"
                                            : "-Infinity";
    } else if (value.is_string()) {
      if (context_.ChargeBytes(value.string().size()))
        AppendJsonString(value.string(), style_.ensure_ascii, out_);
    } else if (value.is_list()) {
      WriteList(value.list(), level);
    } else if (value.is_dict()) {
      WriteDict(value.dict(), level);
    } else {
      context_.Fail(value.is_undefined() ? "tojson: " + value.undefined_reason()
                                         : fmt::format("tojson: a {} has no JSON form", TypeName(value)));
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void WriteList(const List& list, int64_t level) {
    out_ += '[';
    for (size_t i = 0; i < list.items.size() && !context_.failed(); ++i) {
      Separate(i == 0, level + 1);
      Write(list.items[i], level + 1);
    }
    Close(list.items.empty(), level, ']');
  }

  void WriteDict(const Dict& dict, int64_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return Key(a->first) < Key(b->first); });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size() && !context_.failed(); ++i) {
      Separate(i == 0, level + 1);
      AppendJsonString(Key(entries[i]->first), style_.ensure_ascii, out_);
      out_ += style_.key_separator;
      Write(entries[i]->second, level + 1);
    }
    Close(entries.empty(), level, '}');
  }

  static std::string Key(const Value& key) {
    if (key.is_string()) return key.string();
    if (key.is_bool()) return key.boolean() ? "true" : "false";
    if (key.is_integer()) return fmt::to_string(key.integer());
    if (key.is_float()) return FloatText(key.number());
    return "null";
  }

  void Separate(bool first, int64_t level) {
    if (!first) out_ += style_.item_separator;
    NewLine(level);
  }
  void Close(bool empty, int64_t level, char bracket) {
    if (!empty) NewLine(level);
    out_ += bracket;
  }
  void NewLine(int64_t level) {
    if (!style_.indent.has_value()) return;
    if (!context_.ChargeBytes(style_.indent->size() * static_cast<size_t>(level))) return;
    out_ += '\n';
    for (int64_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  Context& context_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const double magnitude = std::fabs(value);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  std::string text(buffer, result.ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string ToText(Context& context, const Value& value) {
  std::string out;
  AppendValue(context, value, false, out);
  return out;
}

std::string ToRepr(Context& context, const Value& value) {
  std::string out;
  AppendValue(context, value, true, out);
  return out;
}

std::string ToJson(Context& context, const Value& value, const JsonStyle& style) {
  JsonWriter writer(context, style);
  writer.Write(value, 0);
  return writer.Take();
}

namespace {

Value FromJsonAt(Context& context, const nlohmann::ordered_json& json, int depth) {
  if (depth > kMaxValueDepth) context.Fail("the input nests too deep");
  if (!context.Charge(1)) return Value();
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      return value <= INT64_MAX ? Value(static_cast<int64_t>(value)) : Value(static_cast<double>(value));
    }
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return MakeString(context, json.get_ref<const std::string&>());
    case nlohmann::ordered_json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(FromJsonAt(context, item, depth + 1));
      return MakeList(context, std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, item] : json.items()) {
        dict->Set(Value(key), FromJsonAt(context, item, depth + 1), context);
      }
      return MakeDict(context, std::move(dict));
    }
    default:
      return Value(None{});
  }
}

}  // namespace

Value FromJson(Context& context, const nlohmann::ordered_json& json) { return FromJsonAt(context, json, 0); }

}  // namespace spillway::jinja
