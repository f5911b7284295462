// Methods of strings, dicts, lists and the loop variable. Those that would change a value are refused by
// name, as the sandbox that templates are written for does.
#include <fmt/format.h>

#include <algorithm>

#include "engine/chat/builtins.h"
#include "engine/chat/format.h"
#include "engine/chat/text.h"
#include "engine/chat/value_text.h"
#include "engine/tokenizer/utf8.h"

namespace spillway::jinja {
namespace {

using Body = Value (*)(Context&, const Value& self, const Arguments&);
struct Entry {
  std::string_view name;
  Body body;
};

// A string argument, or nullptr after failing. `optional`: undefined and none give nullptr without failing.
const std::string* StringArgument(Context& context, std::string_view callee, const Value& value,
                                  bool optional = false) {
  if (value.is_string()) return &value.string();
  if (!(optional && (value.is_undefined() || value.is_none()))) {
    context.Fail(fmt::format("{} needs a string, not {}", callee, TypeName(value)));
  }
  return nullptr;
}

Value StripWith(Context& context, const Value& self, const Arguments& arguments, bool left, bool right) {
  const auto bound = Bind(context, "strip", arguments, {"chars"});
  const std::string* characters = StringArgument(context, "strip", bound[0], true);
  // Each character is looked for in the set.
  if (characters != nullptr && !context.Charge(characters->size())) return Value();
  if (!context.ChargeBytes(self.string().size() * (characters == nullptr ? 1 : characters->size() + 1)))
    return Value();
  return MakeString(context, std::string(Strip(self.string(), characters, left, right)));
}
Value StripBoth(Context& c, const Value& self, const Arguments& a) {
  return StripWith(c, self, a, true, true);
}
Value StripLeft(Context& c, const Value& self, const Arguments& a) {
  return StripWith(c, self, a, true, false);
}
Value StripRight(Context& c, const Value& self, const Arguments& a) {
  return StripWith(c, self, a, false, true);
}

// Words between runs of white space; `limit` splits at most (< 0: all), from the right where asked.
std::vector<Value> SplitWords(std::string_view text, int64_t limit, bool from_right) {
  std::vector<Value> words;
  const auto trim = [&] { text = Strip(text, nullptr, !from_right, from_right); };
  for (trim(); !text.empty(); trim()) {
    if (limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.emplace_back(text);
      break;
    }
    size_t begin = 0;
    size_t end = 0;
    while (end < text.size()) {
      const Utf8Step step = NextUtf8(text.substr(end));
      if (step.kind == Utf8Kind::kCharacter && IsSpaceCharacter(step.code_point)) {
        if (!from_right) break;
        begin = end + step.length;
      }
      end += step.length;
    }
    words.emplace_back(from_right ? text.substr(begin) : text.substr(0, end));
    text = from_right ? text.substr(0, begin) : text.substr(end);
  }
  if (from_right) std::reverse(words.begin(), words.end());
  return words;
}

std::vector<Value> SplitAt(std::string_view text, std::string_view separator, int64_t limit,
                           bool from_right) {
  std::vector<Value> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    parts.emplace_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value SplitWith(Context& context, const Value& self, const Arguments& arguments, bool from_right) {
  const auto bound = Bind(context, "split", arguments, {"sep", "maxsplit"});
  const std::string* separator = StringArgument(context, "split", bound[0], true);
  const int64_t limit = bound[1].is_integral() ? bound[1].integer() : -1;
  if (separator != nullptr && separator->empty()) context.Fail("split: the separator is empty");
  // A right split by words scans what is left for every word.
  const uint64_t passes = separator == nullptr && from_right ? self.string().size() + 1 : 8;
  if (!context.ChargeBytes(self.string().size() * passes)) return Value();
  return MakeList(context, separator == nullptr ? SplitWords(self.string(), limit, from_right)
                                                : SplitAt(self.string(), *separator, limit, from_right));
}
Value SplitLeft(Context& c, const Value& self, const Arguments& a) { return SplitWith(c, self, a, false); }
Value SplitRight(Context& c, const Value& self, const Arguments& a) { return SplitWith(c, self, a, true); }

// Where str.splitlines() ends a line.
bool EndsLine(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Value SplitLines(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "splitlines", arguments, {"keepends"});
  const bool keep = IsTrue(bound[0]);
  if (!context.ChargeBytes(self.string().size() * 8)) return Value();
  std::vector<Value> lines;
  for (std::string_view text = self.string(); !text.empty();) {
    size_t end = 0;
    size_t mark = 0;
    while (end < text.size() && mark == 0) {
      const Utf8Step step = NextUtf8(text.substr(end));
      if (step.kind == Utf8Kind::kCharacter && EndsLine(step.code_point)) {
        mark = text.substr(end).starts_with("\r\n") ? 2 : step.length;
      } else {
        end += step.length;
      }
    }
    lines.emplace_back(text.substr(0, end + (keep ? mark : 0)));
    text.remove_prefix(end + mark);
  }
  return MakeList(context, std::move(lines));
}

// The part of a text between two indices counted as in a slice, and the code points before it.
struct Part {
  std::string_view text;
  int64_t begin = 0;
  bool empty_range = false;  // the start lies behind the end: not even "" is in it
};
Part Between(const std::string& text, const Value& start, const Value& end) {
  if (!start.is_integral() && !end.is_integral()) return {text};
  const auto characters = Characters(text);
  const auto size = static_cast<int64_t>(characters.size());
  const auto index = [&](const Value& bound, int64_t fallback) {
    if (!bound.is_integral()) return fallback;
    return bound.integer() < 0 ? std::max<int64_t>(bound.integer() + size, 0) : bound.integer();
  };
  const int64_t first = index(start, 0);
  const int64_t last = std::min(index(end, size), size);
  if (first > last) return {{}, 0, true};
  const auto offset = [&](int64_t i) {
    return i == size ? text.size()
                     : static_cast<size_t>(characters[static_cast<size_t>(i)].data() - text.data());
  };
  return {std::string_view(text).substr(offset(first), offset(last) - offset(first)), first};
}

Value Affix(Context& context, const Value& self, const Arguments& arguments, bool at_start) {
  const char* name = at_start ? "startswith" : "endswith";
  const auto bound = Bind(context, name, arguments, {"prefix", "start", "end"});
  if (!context.ChargeBytes(bound[1].is_undefined() ? 1 : 4 * self.string().size())) return Value();
  const Part part = Between(self.string(), bound[1], bound[2]);
  std::vector<Value> one = {bound[0]};
  const std::vector<Value>& candidates = bound[0].is_list() ? bound[0].list().items : one;
  for (const Value& candidate : candidates) {
    const std::string* affix = StringArgument(context, name, candidate);
    if (affix == nullptr || !context.ChargeBytes(affix->size())) return Value();
    if (part.empty_range) continue;
    if (at_start ? part.text.starts_with(*affix) : part.text.ends_with(*affix)) return Value(true);
  }
  return Value(false);
}
Value StartsWith(Context& c, const Value& self, const Arguments& a) { return Affix(c, self, a, true); }
Value EndsWith(Context& c, const Value& self, const Arguments& a) { return Affix(c, self, a, false); }

Value RemoveAffix(Context& context, const Value& self, const Arguments& arguments, bool at_start) {
  const auto bound = Bind(context, "removeprefix", arguments, {"affix"});
  const std::string* affix = StringArgument(context, at_start ? "removeprefix" : "removesuffix", bound[0]);
  if (affix == nullptr) return Value();
  const std::string& text = self.string();
  if (at_start && text.starts_with(*affix)) return MakeString(context, text.substr(affix->size()));
  if (!at_start && text.ends_with(*affix))
    return MakeString(context, text.substr(0, text.size() - affix->size()));
  return self;
}
Value RemovePrefix(Context& c, const Value& self, const Arguments& a) {
  return RemoveAffix(c, self, a, true);
}
Value RemoveSuffix(Context& c, const Value& self, const Arguments& a) {
  return RemoveAffix(c, self, a, false);
}

Value ReplaceIn(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "replace", arguments, {"old", "new", "count"});
  const std::string* from = StringArgument(context, "replace", bound[0]);
  const std::string* to = StringArgument(context, "replace", bound[1]);
  if (from == nullptr || to == nullptr) return Value();
  const uint64_t size = self.string().size();
  const uint64_t replaced = (size / std::max<size_t>(from->size(), 1) + 1);
  if (to->size() > kMaxOutputBytes / replaced || !context.ChargeBytes(size + replaced * to->size())) {
    context.Fail("replace: the string grows too large");
    return Value();
  }
  return Value(Replace(self.string(), *from, *to, bound[2].is_integral() ? bound[2].integer() : -1));
}

// Position in code points, -1 where absent.
int64_t FindIn(Context& context, const Value& self, const Arguments& arguments, bool from_right) {
  const auto bound = Bind(context, "find", arguments, {"sub", "start", "end"});
  const std::string* sub = StringArgument(context, "find", bound[0]);
  if (sub == nullptr || !context.ChargeBytes(6 * self.string().size())) return -1;
  const Part part = Between(self.string(), bound[1], bound[2]);
  const size_t at = from_right ? part.text.rfind(*sub) : part.text.find(*sub);
  if (at == std::string::npos || part.empty_range) return -1;
  return part.begin + static_cast<int64_t>(CountCharacters(part.text.substr(0, at)));
}
Value Find(Context& c, const Value& self, const Arguments& a) { return Value(FindIn(c, self, a, false)); }
Value FindRight(Context& c, const Value& self, const Arguments& a) { return Value(FindIn(c, self, a, true)); }
template <bool from_right>
Value Index(Context& context, const Value& self, const Arguments& arguments) {
  const int64_t at = FindIn(context, self, arguments, from_right);
  if (at < 0) context.Fail("index: substring not found");
  return Value(at);
}

Value CountIn(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "count", arguments, {"sub", "start", "end"});
  const std::string* sub = StringArgument(context, "count", bound[0]);
  if (sub == nullptr || !context.ChargeBytes(6 * self.string().size())) return Value();
  const Part part = Between(self.string(), bound[1], bound[2]);
  if (part.empty_range) return Value(int64_t{0});
  if (sub->empty()) return Value(static_cast<int64_t>(CountCharacters(part.text) + 1));
  int64_t count = 0;
  for (size_t at = part.text.find(*sub); at != std::string::npos; at = part.text.find(*sub, at + sub->size()))
    ++count;
  return Value(count);
}

Value JoinWith(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "join", arguments, {"iterable"});
  const auto items = ToIterable(context, bound[0]);
  if (items == nullptr) return Value();
  std::string text;
  for (size_t i = 0; i < items->items.size(); ++i) {
    const std::string* item = StringArgument(context, "join", items->items[i]);
    if (item == nullptr || !context.ChargeBytes(item->size() + self.string().size())) return Value();
    if (i > 0) text += self.string();
    text += *item;
  }
  return Value(std::move(text));
}

template <std::string (*map)(std::string_view)>
Value MapText(Context& context, const Value& self, const Arguments& arguments) {
  Bind(context, "a change of case", arguments, {});
  if (!context.ChargeBytes(4 * self.string().size())) return Value();
  return Value(map(self.string()));
}

template <bool (*holds)(uint32_t)>
Value AllCharacters(Context& context, const Value& self, const Arguments& arguments) {
  Bind(context, "a test of characters", arguments, {});
  if (!context.ChargeBytes(self.string().size())) return Value();
  for (std::string_view text = self.string(); !text.empty();) {
    const Utf8Step step = NextUtf8(text);
    if (step.kind != Utf8Kind::kCharacter || !holds(step.code_point)) return Value(false);
    text.remove_prefix(step.length);
  }
  return Value(!self.string().empty());
}
bool IsLetterOrDigit(uint32_t c) { return IsLetter(c) || IsDigitCharacter(c); }

Value IsUpper(Context& context, const Value& self, const Arguments&) {
  if (!context.ChargeBytes(4 * self.string().size())) return Value();
  return Value(IsUpperText(self.string()));
}
Value IsLower(Context& context, const Value& self, const Arguments&) {
  if (!context.ChargeBytes(4 * self.string().size())) return Value();
  return Value(IsLowerText(self.string()));
}

// "{}", "{0}", "{name}", each with a specification after ":", and doubled braces.
Value Format(Context& context, const Value& self, const Arguments& arguments) {
  std::string out;
  size_t next = 0;
  const std::string& text = self.string();
  for (size_t i = 0; i < text.size() && !context.failed(); ++i) {
    if ((text[i] == '{' || text[i] == '}') && i + 1 < text.size() && text[i + 1] == text[i]) {
      out += text[i++];
      continue;
    }
    if (text[i] != '{') {
      out += text[i];
      continue;
    }
    const size_t end = text.find('}', i);
    std::string field = end == std::string::npos ? "" : text.substr(i + 1, end - i - 1);
    const size_t colon = std::min(field.find(':'), field.size());
    const std::string spec = field.substr(std::min(colon + 1, field.size()));
    field.resize(colon);
    if (end == std::string::npos || (field + spec).find_first_of("!.[{") < field.size()) {
      context.Fail("format: only {}, {0} and {name}, with a specification or without, are supported");
      return Value();
    }
    i = end;
    const bool is_index = field.size() < 6 && field.find_first_not_of("0123456789") == std::string::npos;
    const size_t index = field.empty() ? next++ : is_index ? std::stoul(field) : SIZE_MAX;
    const Value* value = index < arguments.positional.size() ? &arguments.positional[index] : nullptr;
    for (const auto& [name, candidate] : arguments.named) {
      if (!is_index && name == field) value = &candidate;
    }
    if (value == nullptr) {
      context.Fail(fmt::format("format: no value for {{{}}}", field));
      return Value();
    }
    out += spec.empty() ? ToText(context, *value) : FormatWithSpec(context, *value, spec);
  }
  return MakeString(context, std::move(out));
}

// ljust, rjust and center: `left` and `right` say where the filling goes.
Value Justify(Context& context, const Value& self, const Arguments& arguments, bool left, bool right) {
  const auto bound = Bind(context, "ljust", arguments, {"width", "fillchar"});
  const std::string fill = bound[1].is_string() ? bound[1].string() : " ";
  const auto length = static_cast<int64_t>(CountCharacters(self.string()));
  const int64_t width = bound[0].is_integral() ? bound[0].integer() : 0;
  const int64_t missing = std::max<int64_t>(width - length, 0);
  if (missing > 10'000 || CountCharacters(fill) != 1)
    context.Fail("ljust: a width above 10000, or no one character");
  if (!context.ChargeBytes(4 * self.string().size() + static_cast<uint64_t>(missing) * fill.size()))
    return Value();
  // Python's center puts the odd one on the left where the width is odd.
  const int64_t before = !left ? 0 : !right ? missing : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += self.string();
  for (int64_t i = before; i < missing; ++i) out += fill;
  return MakeString(context, std::move(out));
}
template <bool left, bool right>
Value JustifyText(Context& c, const Value& self, const Arguments& a) {
  return Justify(c, self, a, left, right);
}

Value FillZeros(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "zfill", arguments, {"width"});
  std::string text = self.string();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const int64_t width = bound[0].is_integral() ? std::min<int64_t>(bound[0].integer(), 10'000) : 0;
  const int64_t missing = width - static_cast<int64_t>(CountCharacters(text));
  if (missing > 0) text.insert(sign, static_cast<size_t>(missing), '0');
  return MakeString(context, std::move(text));
}

template <bool from_right>
Value Partition(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "partition", arguments, {"sep"});
  const std::string* separator = StringArgument(context, "partition", bound[0]);
  if (separator != nullptr && separator->empty()) context.Fail("partition: the separator is empty");
  if (context.failed() || !context.ChargeBytes(4 * self.string().size())) return Value();
  const std::string& text = self.string();
  const size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
  if (at == std::string::npos) {
    return from_right ? MakeList(context, {Value(""), Value(""), self}, true)
                      : MakeList(context, {self, Value(""), Value("")}, true);
  }
  return MakeList(context,
                  {Value(text.substr(0, at)), Value(*separator), Value(text.substr(at + separator->size()))},
                  true);
}

Value DictItems(Context& context, const Value& self, const Arguments& arguments) {
  Bind(context, "items", arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) items.push_back(MakeList(context, {key, value}, true));
  return MakeList(context, std::move(items));
}
Value DictKeys(Context& context, const Value& self, const Arguments& arguments) {
  Bind(context, "keys", arguments, {});
  std::vector<Value> keys;
  for (const auto& entry : self.dict().entries) keys.push_back(entry.first);
  return MakeList(context, std::move(keys));
}
Value DictValues(Context& context, const Value& self, const Arguments& arguments) {
  Bind(context, "values", arguments, {});
  std::vector<Value> values;
  for (const auto& entry : self.dict().entries) values.push_back(entry.second);
  return MakeList(context, std::move(values));
}
Value DictGet(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "get", arguments, {"key", "default"});
  if (const Value* found = self.dict().Find(bound[0], context)) return *found;
  return bound[1].is_undefined() ? Value(None{}) : bound[1];
}
Value Copy(Context& context, const Value& self, const Arguments& arguments) {
  Bind(context, "copy", arguments, {});
  return self;
}

Value ListIndex(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "index", arguments, {"value"});
  const auto& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equals(context, items[i], bound[0])) return Value(static_cast<int64_t>(i));
  }
  context.Fail("index: the value is not in the list");
  return Value();
}
Value ListCount(Context& context, const Value& self, const Arguments& arguments) {
  const auto bound = Bind(context, "count", arguments, {"value"});
  const auto& items = self.list().items;
  return Value(static_cast<int64_t>(std::count_if(
      items.begin(), items.end(), [&](const Value& item) { return Equals(context, item, bound[0]); })));
}

Value LoopCycle(Context& context, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    context.Fail("loop.cycle needs values");
    return Value();
  }
  const auto* loop = static_cast<const Loop*>(self.object());
  return arguments.positional[loop->index % arguments.positional.size()];
}
Value LoopChanged(Context& context, const Value& self, const Arguments& arguments) {
  auto* loop = static_cast<Loop*>(self.object());
  std::string now = ToRepr(context, MakeList(context, arguments.positional, true));
  const bool changed = now != loop->changed_last;
  loop->changed_last = std::move(now);
  return Value(changed);
}

Value Refuse(Context& context, const Value& self, const Arguments&) {
  context.Fail(fmt::format("a {} cannot be changed in a template", TypeName(self)));
  return Value();
}

constexpr Entry kStringMethods[] = {
    {"capitalize", MapText<Capitalize>},
    {"casefold", MapText<Lower>},
    {"center", JustifyText<true, true>},
    {"count", CountIn},
    {"endswith", EndsWith},
    {"find", Find},
    {"format", Format},
    {"index", Index<false>},
    {"isalnum", AllCharacters<IsLetterOrDigit>},
    {"isalpha", AllCharacters<IsLetter>},
    {"isdecimal", AllCharacters<IsDigitCharacter>},
    {"isdigit", AllCharacters<IsDigitCharacter>},
    {"islower", IsLower},
    {"isnumeric", AllCharacters<IsDigitCharacter>},
    {"isspace", AllCharacters<IsSpaceCharacter>},
    {"isupper", IsUpper},
    {"join", JoinWith},
    {"ljust", JustifyText<false, true>},
    {"lower", MapText<Lower>},
    {"lstrip", StripLeft},
    {"partition", Partition<false>},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", ReplaceIn},
    {"rfind", FindRight},
    {"rindex", Index<true>},
    {"rjust", JustifyText<true, false>},
    {"rpartition", Partition<true>},
    {"rsplit", SplitRight},
    {"rstrip", StripRight},
    {"split", SplitLeft},
    {"splitlines", SplitLines},
    {"startswith", StartsWith},
    {"strip", StripBoth},
    {"title", MapText<Title>},
    {"upper", MapText<Upper>},
    {"zfill", FillZeros},
};
constexpr Entry kDictMethods[] = {
    {"clear", Refuse},  {"copy", Copy},         {"get", DictGet},    {"items", DictItems},
    {"keys", DictKeys}, {"pop", Refuse},        {"popitem", Refuse}, {"setdefault", Refuse},
    {"update", Refuse}, {"values", DictValues},
};
constexpr Entry kListMethods[] = {
    {"append", Refuse}, {"clear", Refuse},    {"copy", Copy},     {"count", ListCount},
    {"extend", Refuse}, {"index", ListIndex}, {"insert", Refuse}, {"pop", Refuse},
    {"remove", Refuse}, {"reverse", Refuse},  {"sort", Refuse},
};
constexpr Entry kLoopMethods[] = {{"changed", LoopChanged}, {"cycle", LoopCycle}};

template <size_t n>
Body Search(const Entry (&table)[n], std::string_view name) {
  const auto entry =
      std::find_if(std::begin(table), std::end(table), [name](const Entry& e) { return e.name == name; });
  return entry == std::end(table) ? nullptr : entry->body;
}

Body FindMethod(const Value& self, std::string_view name) {
  if (self.is_string()) return Search(kStringMethods, name);
  if (self.is_dict()) return Search(kDictMethods, name);
  if (self.is_list()) return Search(kListMethods, name);
  if (self.is_object() && self.object()->kind == Object::Kind::kLoop) return Search(kLoopMethods, name);
  return nullptr;
}

}  // namespace

bool HasMethod(const Value& self, std::string_view name) {
  return !self.is_object() && FindMethod(self, name) != nullptr;
}

Value CallMethod(Context& context, const Method& method, const Arguments& arguments) {
  const Body body = FindMethod(method.self, method.name);
  if (body == nullptr) {
    context.Fail(fmt::format("a {} has no method '{}'", TypeName(method.self), method.name));
    return Value();
  }
  return body(context, method.self, arguments);
}

}  // namespace spillway::jinja
