// Filters of single values (text, numbers, JSON), and the look-up of all.
#include "engine/chat/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/chat/builtins.h"
#include "engine/chat/text.h"
#include "engine/chat/value_text.h"

namespace spillway::jinja {
namespace {

// The input as text, charged for; filters of text take any value.
std::string TextOf(Context& context, const Value& input, uint64_t passes = 2) {
  std::string text = ToText(context, input);
  if (!context.ChargeBytes(passes * text.size())) text.clear();
  return text;
}

// A named method of strings applied to the input as text.
Value AsMethod(Context& context, std::string name, const Value& input, const Arguments& arguments) {
  const Value text(TextOf(context, input));
  return context.failed() ? Value() : CallMethod(context, Method(text, std::move(name)), arguments);
}

Value Escape(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "escape", arguments, {});
  std::string out;
  for (const char c : TextOf(context, input)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return MakeString(context, std::move(out));
}

Value Indent(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "indent", arguments, {"width", "first", "blank"});
  const std::string text = TextOf(context, input);
  const int64_t width = bound[0].is_integral() ? bound[0].integer() : 4;
  if (width < 0 || width > 1000) {
    context.Fail(fmt::format("indent: a width of {}", width));
    return Value();
  }
  const std::string margin =
      bound[0].is_string() ? bound[0].string() : std::string(static_cast<size_t>(width), ' ');
  const auto lines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  if (!context.ChargeBytes(lines * (margin.size() + 1))) return Value();
  std::string out = IsTrue(bound[1]) ? margin : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool blank = i + 1 == text.size() || text[i + 1] == '\n';
    if (text[i] == '\n' && (!blank || IsTrue(bound[2]))) out += margin;
  }
  return MakeString(context, std::move(out));
}

Value Default(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "default", arguments, {"default_value", "boolean"});
  if (!input.is_undefined() && (!IsTrue(bound[1]) || IsTrue(input))) return input;
  return bound[0].is_undefined() ? Value("") : bound[0];
}

Value ToJsonText(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound =
      Bind(context, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  // Jinja's own filter has the indent first, and templates use both orders.
  const Value& indent = bound[0].is_integer() ? bound[0] : bound[1];
  style.ensure_ascii = bound[0].is_bool() && bound[0].boolean();
  style.sort_keys = IsTrue(bound[3]);
  if (indent.is_integral()) {
    style.indent = std::clamp<int64_t>(indent.integer(), 0, 100);
    style.item_separator = std::string(1, ',');
  }
  if (bound[2].is_list() && bound[2].list().items.size() == 2) {
    style.item_separator = ToText(context, bound[2].list().items[0]);
    style.key_separator = ToText(context, bound[2].list().items[1]);
  }
  return MakeString(context, ToJson(context, input, style));
}

Value ToStringFilter(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "string", arguments, {});
  return input.is_string() ? input : MakeString(context, ToText(context, input));
}

// The number a string spells, undefined for none.
Value ParseNumber(std::string_view text) {
  text = Strip(text, nullptr, true, true);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (const auto r = std::from_chars(text.data(), end, integer); r.ec == std::errc() && r.ptr == end)
    return Value(integer);
  double number = 0;
  if (const auto r = std::from_chars(text.data(), end, number); r.ec == std::errc() && r.ptr == end)
    return Value(number);
  return Value();
}

Value ToInteger(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "int", arguments, {"default", "base"});
  const Value number = input.is_string() ? ParseNumber(input.string()) : input;
  if (number.is_integral()) return Value(number.integer());
  if (number.is_float() && std::fabs(number.number()) < 9e18)
    return Value(static_cast<int64_t>(number.number()));
  return bound[0].is_undefined() ? Value(int64_t{0}) : bound[0];
}

Value ToFloat(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "float", arguments, {"default"});
  const Value number = input.is_string() ? ParseNumber(input.string()) : input;
  if (number.is_number()) return Value(number.number());
  return bound[0].is_undefined() ? Value(0.0) : bound[0];
}

Value Absolute(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "abs", arguments, {});
  if (input.is_float()) return Value(std::fabs(input.number()));
  return input.is_integral() && input.integer() >= 0 ? Value(input.integer()) : Negate(context, input);
}

Value Round(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "round", arguments, {"precision", "method"});
  if (!input.is_number()) {
    context.Fail(fmt::format("round needs a number, not {}", TypeName(input)));
    return Value();
  }
  const int64_t digits = bound[0].is_integral() ? std::clamp<int64_t>(bound[0].integer(), -300, 300) : 0;
  const std::string method = bound[1].is_string() ? bound[1].string() : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.number() * scale;
  if (!std::isfinite(scaled)) return Value(input.number());
  const double rounded = method == "ceil"    ? std::ceil(scaled)
                         : method == "floor" ? std::floor(scaled)
                                             : std::nearbyint(scaled);
  return Value(rounded / scale);
}

Value WordCount(Context& context, const Value& input, const Arguments& arguments) {
  const Value words = AsMethod(context, "split", input, arguments);
  return words.is_list() ? Value(static_cast<int64_t>(words.list().items.size())) : Value();
}

Value Attribute(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "attr", arguments, {"name"});
  return GetAttribute(context, input, ToText(context, bound[0]));
}

template <const char* method>
Value Text(Context& context, const Value& input, const Arguments& arguments) {
  return AsMethod(context, method, input, arguments);
}
constexpr char kCapitalize[] = "capitalize";
constexpr char kLower[] = "lower";
constexpr char kReplace[] = "replace";
constexpr char kStrip[] = "strip";
constexpr char kTitle[] = "title";
constexpr char kUpper[] = "upper";

constexpr FilterEntry kFilters[] = {
    {"abs", Absolute},
    {"attr", Attribute},
    {"capitalize", Text<kCapitalize>},
    {"d", Default},
    {"default", Default},
    {"e", Escape},
    {"escape", Escape},
    {"float", ToFloat},
    {"indent", Indent},
    {"int", ToInteger},
    {"lower", Text<kLower>},
    {"replace", Text<kReplace>},
    {"round", Round},
    {"safe", [](Context&, const Value& input, const Arguments&) { return input; }},
    {"string", ToStringFilter},
    {"title", Text<kTitle>},
    {"tojson", ToJsonText},
    {"trim", Text<kStrip>},
    {"upper", Text<kUpper>},
    {"wordcount", WordCount},
};

}  // namespace

Value ApplyFilter(Context& context, std::string_view name, const Value& input, const Arguments& arguments) {
  for (const std::span<const FilterEntry> table : {std::span<const FilterEntry>(kFilters), ListFilters()}) {
    for (const FilterEntry& entry : table) {
      if (entry.name == name) return entry.body(context, input, arguments);
    }
  }
  context.Fail(fmt::format("unknown filter '{}'", name));
  return Value();
}

}  // namespace spillway::jinja
