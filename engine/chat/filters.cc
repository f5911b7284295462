// Filters of single values (text, numbers, JSON), and the look-up of all.
#include "engine/chat/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/chat/builtins.h"
#include "engine/chat/format.h"
#include "engine/chat/text.h"
#include "engine/chat/value_text.h"
#include "engine/tokenizer/utf8.h"

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

bool NeedString(Context& context, std::string_view filter, const Value& input) {
  if (input.is_string()) return true;
  context.Fail(input.is_undefined() ? input.undefined_reason()
                                    : fmt::format("{} needs a string, not {}", filter, TypeName(input)));
  return false;
}

Value Indent(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "indent", arguments, {"width", "first", "blank"});
  if (!NeedString(context, "indent", input)) return Value();
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
  style.ensure_ascii = IsTrue(bound[0]);
  style.sort_keys = IsTrue(bound[3]);
  if (bound[1].is_integral()) {
    style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(bound[1].integer(), 0, 100)), ' ');
  } else if (bound[1].is_string()) {
    style.indent = bound[1].string();
  }
  if (style.indent.has_value()) style.item_separator = std::string(1, ',');
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
  if (method == "common") {
    if (input.is_integral() && digits >= 0) return Value(input.integer());
    if (digits < 0) {
      const double rounded = std::nearbyint(scaled) / scale;
      return input.is_integral() ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
    }
    // Python rounds the exact value, which the product with a power of ten no longer is.
    const std::string text = fmt::format("{:.{}f}", input.number(), digits);
    double rounded = input.number();
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return Value(rounded);
  }
  if (!std::isfinite(scaled)) return Value(input.number());
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

// Runs of letters, digits and underscores.
Value WordCount(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "wordcount", arguments, {});
  int64_t count = 0;
  bool inside = false;
  const std::string text = TextOf(context, input);
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Step step = NextUtf8(rest);
    const uint32_t c = step.code_point;
    const bool word = step.kind == Utf8Kind::kCharacter && (c == '_' || IsLetter(c) || IsDigitCharacter(c));
    count += word && !inside ? 1 : 0;
    inside = word;
    rest.remove_prefix(step.length);
  }
  return Value(count);
}

Value Attribute(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "attr", arguments, {"name"});
  // An attribute only: what a dict holds is not one.
  const std::string name = ToText(context, bound[0]);
  if (input.is_dict() && !HasMethod(input, name)) return Value::MakeUndefined("a dict has no such attribute");
  return GetAttribute(context, input, name);
}

Value FormatText(Context& context, const Value& input, const Arguments& arguments) {
  const std::string text = TextOf(context, input);
  if (arguments.named.empty()) {
    return MakeString(context, PercentFormat(context, text, MakeList(context, arguments.positional, true)));
  }
  auto values = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named) values->Set(Value(name), value, context);
  if (!arguments.positional.empty()) context.Fail("format takes positional or named arguments, not both");
  return MakeString(context, PercentFormat(context, text, MakeDict(context, std::move(values))));
}

Value Truncate(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  if ((input.is_number() || input.is_none()) && !NeedString(context, "truncate", input)) return Value();
  const std::string text = TextOf(context, input);
  const int64_t length = bound[0].is_integral() ? bound[0].integer() : 255;
  const std::string end = bound[2].is_undefined() ? "..." : ToText(context, bound[2]);
  const int64_t leeway = bound[3].is_integral() ? bound[3].integer() : 5;
  const auto characters = Characters(text);
  const auto end_length = static_cast<int64_t>(CountCharacters(end));
  if (length < end_length || leeway < 0) context.Fail(fmt::format("truncate: a length of {}", length));
  if (context.failed() || static_cast<int64_t>(characters.size()) <= length + leeway) return Value(text);
  const auto kept = static_cast<size_t>(length - end_length);
  std::string out = text.substr(0, static_cast<size_t>(characters[kept].data() - text.data()));
  if (!IsTrue(bound[1])) out = out.substr(0, out.rfind(' '));
  return MakeString(context, out + end);
}

Value UrlEncode(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "urlencode", arguments, {});
  std::string out;
  for (const char c : TextOf(context, input, 3)) {
    const auto byte = static_cast<uint8_t>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return MakeString(context, std::move(out));
}

Value TitleCase(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "title", arguments, {});
  return MakeString(context, TitleWords(TextOf(context, input, 4)));
}

Value Center(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "center", arguments, {"width"});
  const Value width = bound[0].is_undefined() ? Value(int64_t{80}) : bound[0];
  return AsMethod(context, "center", input, {.positional = {width}, .named = {}});
}

Value ReplaceText(Context& context, const Value& input, const Arguments& arguments) {
  Arguments texts = arguments;
  for (size_t i = 0; i < std::min<size_t>(2, texts.positional.size()); ++i) {
    if (!texts.positional[i].is_string()) texts.positional[i] = Value(ToText(context, texts.positional[i]));
  }
  return AsMethod(context, "replace", input, texts);
}

template <const char* method>
Value Text(Context& context, const Value& input, const Arguments& arguments) {
  return AsMethod(context, method, input, arguments);
}
constexpr char kCapitalize[] = "capitalize";
constexpr char kLower[] = "lower";
constexpr char kStrip[] = "strip";
constexpr char kUpper[] = "upper";

constexpr FilterEntry kFilters[] = {
    {"abs", Absolute},
    {"attr", Attribute},
    {"capitalize", Text<kCapitalize>},
    {"center", Center},
    {"d", Default},
    {"default", Default},
    {"e", Escape},
    {"escape", Escape},
    {"float", ToFloat},
    {"forceescape", Escape},
    {"format", FormatText},
    {"indent", Indent},
    {"int", ToInteger},
    {"lower", Text<kLower>},
    {"replace", ReplaceText},
    {"round", Round},
    {"safe", [](Context&, const Value& input, const Arguments&) { return input; }},
    {"string", ToStringFilter},
    {"title", TitleCase},
    {"tojson", ToJsonText},
    {"trim", Text<kStrip>},
    {"truncate", Truncate},
    {"upper", Text<kUpper>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

namespace {

const FilterEntry* FindFilter(std::string_view name) {
  for (const std::span<const FilterEntry> table : {std::span<const FilterEntry>(kFilters), ListFilters()}) {
    for (const FilterEntry& entry : table) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

}  // namespace

bool HasFilter(std::string_view name) { return FindFilter(name) != nullptr; }

Value ApplyFilter(Context& context, std::string_view name, const Value& input, const Arguments& arguments) {
  if (const FilterEntry* filter = FindFilter(name)) return filter->body(context, input, arguments);
  context.Fail(fmt::format("unknown filter '{}'", name));
  return Value();
}

}  // namespace spillway::jinja
