// Python's two formatting languages: "%s %05.2f" % values and "{:>8} {name}".format(values). Both end in one
// style and one writer.
#include "engine/chat/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/chat/text.h"
#include "engine/chat/value_text.h"

namespace spillway::jinja {
namespace {

constexpr size_t kMaxWidth = 10'000;
constexpr int kMaxPrecision = 100;

struct Style {
  std::string fill = " ";
  char align = 0;  // < > ^ =; 0: what the kind of value has
  char sign = '-';
  bool alternate = false;
  bool comma = false;
  size_t width = 0;
  std::optional<int> precision;
  char type = 0;
};

// Decimal digits at `i`, bounded; nullopt where there are none.
std::optional<size_t> TakeNumber(std::string_view text, size_t& i) {
  const size_t begin = i;
  size_t number = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    number = std::min<size_t>(number * 10 + static_cast<size_t>(text[i] - '0'), kMaxWidth + 1);
  }
  return i == begin ? std::nullopt : std::optional(number);
}

void TakePrecision(std::string_view text, size_t& i, Style& style) {
  if (i >= text.size() || text[i] != '.') return;
  ++i;
  style.precision = static_cast<int>(std::min<size_t>(TakeNumber(text, i).value_or(0), kMaxPrecision));
}

std::string GroupThousands(std::string digits) {
  size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string FloatBody(double magnitude, const Style& style) {
  const int precision = style.precision.value_or(6);
  switch (style.type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
    case 'G':
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 0:
      return style.precision.has_value() ? fmt::format("{:.{}g}", magnitude, std::max(precision, 1))
                                         : FloatText(magnitude);
    default:
      return fmt::format("{:.{}f}", magnitude, precision);
  }
}

std::string IntegerBody(uint64_t magnitude, const Style& style) {
  switch (style.type) {
    case 'x':
      return fmt::format("{}{:x}", style.alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", style.alternate ? "0X" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", style.alternate ? "0o" : "", magnitude);
    case 'b':
      return fmt::format("{}{:b}", style.alternate ? "0b" : "", magnitude);
    default:
      return fmt::to_string(magnitude);
  }
}

std::string Padded(Context& context, std::string_view sign, std::string body, const Style& style,
                   char default_align) {
  const size_t length = CountCharacters(body) + sign.size();
  const size_t missing = style.width > length ? style.width - length : 0;
  if (style.width > kMaxWidth) context.Fail(fmt::format("format: a width above {}", kMaxWidth));
  if (!context.ChargeBytes(body.size() + missing * style.fill.size())) return "";
  const char align = style.align != 0 ? style.align : default_align;
  const size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out;
  if (align == '=') out += sign;
  for (size_t i = 0; i < left; ++i) out += style.fill;
  if (align != '=') out += sign;
  out += body;
  for (size_t i = left; i < missing; ++i) out += style.fill;
  return out;
}

std::string Written(Context& context, const Value& value, const Style& style) {
  if (value.is_number() && !(value.is_bool() && style.type == 0)) {
    const bool as_float =
        value.is_float() ||
        (style.type != 0 && std::string_view("eEfFgG%").find(style.type) != std::string::npos);
    const bool negative = value.is_float() ? std::signbit(value.number()) : value.integer() < 0;
    const auto magnitude = value.is_float() ? 0
                           : negative       ? 0 - static_cast<uint64_t>(value.integer())
                                            : static_cast<uint64_t>(value.integer());
    std::string body = as_float ? FloatBody(std::fabs(value.number()), style) : IntegerBody(magnitude, style);
    if (style.comma) body = GroupThousands(std::move(body));
    const std::string_view sign = negative ? "-" : style.sign == '+' ? "+" : style.sign == ' ' ? " " : "";
    return Padded(context, sign, std::move(body), style, '>');
  }
  if (style.type != 0 && style.type != 's') {
    context.Fail(fmt::format("format: '{}' needs a number, not {}", style.type, TypeName(value)));
    return "";
  }
  std::string text = ToText(context, value);
  if (style.precision.has_value()) {
    const auto characters = Characters(text);
    const auto kept = static_cast<size_t>(*style.precision);
    if (kept < characters.size()) text.resize(static_cast<size_t>(characters[kept].data() - text.data()));
  }
  return Padded(context, "", std::move(text), style, '<');
}

// One "%…" directive after its name; `i` ends behind the type.
bool ParsePercent(Context& context, std::string_view text, size_t& i, Style& style) {
  style.align = '>';
  for (; i < text.size() && std::string_view("-+ #0").find(text[i]) != std::string::npos; ++i) {
    if (text[i] == '-') style.align = '<';
    if (text[i] == '+' || (text[i] == ' ' && style.sign != '+')) style.sign = text[i];
    if (text[i] == '#') style.alternate = true;
    if (text[i] == '0' && style.align != '<') {
      style.align = '=';
      style.fill.assign(1, '0');
    }
  }
  if (style.align == '<') style.fill.assign(1, ' ');
  style.width = TakeNumber(text, i).value_or(0);
  TakePrecision(text, i, style);
  if (i >= text.size() || std::string_view("sdiurfFeEgGxXo").find(text[i]) == std::string::npos) {
    context.Fail("a % format that is not supported");
    return false;
  }
  style.type = text[i++];
  return true;
}

// Python's int and float conversions of % take the other kind of number too.
Value Converted(Context& context, const Value& value, Style& style) {
  if (style.type == 'r') {
    style.type = 's';
    return MakeString(context, ToRepr(context, value));
  }
  if (style.type == 's') return MakeString(context, ToText(context, value));
  if (style.type == 'i' || style.type == 'u') style.type = 'd';
  const bool integral = style.type == 'd' || style.type == 'x' || style.type == 'X' || style.type == 'o';
  if (integral && value.is_float() && std::fabs(value.number()) < 9e18)
    return Value(static_cast<int64_t>(value.number()));
  return value;
}

// "[[fill]align][sign][#][0][width][,][.precision][type]"
bool ParseSpec(Context& context, std::string_view spec, Style& style) {
  const auto characters = Characters(spec.substr(0, 8));
  const auto is_align = [](std::string_view c) {
    return c.size() == 1 && std::string_view("<>^=").find(c[0]) != std::string::npos;
  };
  size_t i = 0;
  if (characters.size() > 1 && is_align(characters[1])) {
    style.fill = std::string(characters[0]);
    style.align = characters[1][0];
    i = characters[0].size() + 1;
  } else if (!characters.empty() && is_align(characters[0])) {
    style.align = characters[0][0];
    i = 1;
  }
  const auto at = [&](std::string_view set) {
    return i < spec.size() && set.find(spec[i]) != std::string::npos;
  };
  if (at("+- ")) style.sign = spec[i++];
  if (at("#")) style.alternate = spec[i++] == '#';
  if (at("0") && style.align == 0) {
    style.fill.assign(1, '0');
    style.align = '=';
  }
  style.width = TakeNumber(spec, i).value_or(0);
  if (at(",")) style.comma = spec[i++] == ',';
  TakePrecision(spec, i, style);
  if (at("sdfFeEgGxXob%")) style.type = spec[i++];
  if (i == spec.size()) return true;
  context.Fail(fmt::format("format: the specification '{}' is not supported", spec.substr(0, 40)));
  return false;
}

}  // namespace

std::string PercentFormat(Context& context, std::string_view text, const Value& values) {
  const bool is_tuple = values.is_list() && values.list().is_tuple;
  const size_t available = is_tuple ? values.list().items.size() : 1;
  size_t next = 0;
  bool named = false;
  std::string out;
  for (size_t i = 0; i < text.size() && !context.failed();) {
    if (text[i] != '%') {
      out += text[i++];
      continue;
    }
    ++i;
    if (i < text.size() && text[i] == '%') {
      out += text[i++];
      continue;
    }
    Value value;
    if (i < text.size() && text[i] == '(' && values.is_dict()) {
      const size_t end = std::min(text.find(')', i), text.size());
      const Value* found = values.dict().Find(text.substr(i + 1, end - i - 1));
      if (found == nullptr) context.Fail("a % format names a value that is not there");
      value = found == nullptr ? Value() : *found;
      i = std::min(end + 1, text.size());
      named = true;
    } else if (next < available) {
      value = is_tuple ? values.list().items[next] : values;
      ++next;
    } else {
      context.Fail("not enough arguments for format string");
    }
    Style style;
    if (context.failed() || !ParsePercent(context, text, i, style)) break;
    value = Converted(context, value, style);
    if ((value.is_string() && style.type == 's') || value.is_number()) {
      out += Written(context, value, style);
    } else {
      context.Fail(fmt::format("%{} needs a number, not {}", style.type, TypeName(value)));
    }
  }
  if (next < available && !named && !values.is_dict())
    context.Fail("not all arguments converted during string formatting");
  return out;
}

std::string FormatWithSpec(Context& context, const Value& value, std::string_view spec) {
  Style style;
  return ParseSpec(context, spec, style) ? Written(context, value, style) : "";
}

}  // namespace spillway::jinja
