// Global functions: range, namespace, dict, raise_exception, strftime_now.
#include <fmt/format.h>

#include <ctime>

#include "engine/chat/builtins.h"
#include "engine/chat/value_text.h"

namespace spillway::jinja {
namespace {

constexpr uint64_t kMaxRange = 100'000;  // as Jinja's sandbox

Value Range(Context& context, const Arguments& arguments) {
  const auto bound = Bind(context, "range", arguments, {"start", "stop", "step"});
  for (const Value& value : bound) {
    if (!value.is_undefined() && !value.is_integral()) {
      context.Fail(fmt::format("range needs integers, not {}", TypeName(value)));
      return Value();
    }
  }
  if (bound[0].is_undefined()) {
    context.Fail("range needs an argument");
    return Value();
  }
  const bool one = bound[1].is_undefined();
  const int64_t start = one ? 0 : bound[0].integer();
  const int64_t stop = one ? bound[0].integer() : bound[1].integer();
  const int64_t step = bound[2].is_undefined() ? 1 : bound[2].integer();
  if (step == 0) {
    context.Fail("range: the step is zero");
    return Value();
  }
  const uint64_t distance =
      step > 0 ? (stop > start ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) : 0)
               : (start > stop ? static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) : 0);
  const uint64_t width = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t count = distance == 0 ? 0 : (distance - 1) / width + 1;
  if (count > kMaxRange) {
    context.Fail(fmt::format("range of {} numbers, at most {}", count, kMaxRange));
    return Value();
  }
  std::vector<Value> items;
  int64_t at = start;
  for (uint64_t i = 0; i < count; ++i) {
    items.emplace_back(at);
    if (i + 1 < count) at += step;
  }
  return MakeList(context, std::move(items));
}

Value MakeNamespace(Context& context, const Arguments& arguments) {
  auto made = std::make_shared<Namespace>();
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) {
      context.Fail(fmt::format("namespace takes a dict or names, not {}", TypeName(value)));
      return Value();
    }
    for (const auto& [key, item] : value.dict().entries) made->attributes[ToText(context, key)] = item;
  }
  for (const auto& [name, value] : arguments.named) made->attributes[name] = value;
  if (!context.Charge(16 + 8 * made->attributes.size())) return Value();
  context.namespaces.push_back(made);
  return Value(std::shared_ptr<Object>(std::move(made)));
}

Value MakeDictOf(Context& context, const Arguments& arguments) {
  auto dict = std::make_shared<Dict>();
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) {
      context.Fail(fmt::format("dict takes a dict or names, not {}", TypeName(value)));
      return Value();
    }
    for (const auto& [key, item] : value.dict().entries) dict->Set(key, item, context);
  }
  for (const auto& [name, value] : arguments.named) dict->Set(Value(name), value, context);
  return MakeDict(context, std::move(dict));
}

Value RaiseException(Context& context, const Arguments& arguments) {
  const auto bound = Bind(context, "raise_exception", arguments, {"message"});
  context.Fail(ToText(context, bound[0]));
  return Value();
}

Value FormatNow(Context& context, const Arguments& arguments) {
  const auto bound = Bind(context, "strftime_now", arguments, {"format"});
  if (!bound[0].is_string()) {
    context.Fail("strftime_now needs a format");
    return Value();
  }
  return MakeString(context, FormatTime(context, bound[0].string(), context.now_unix_seconds));
}

}  // namespace

void AddGlobalFunctions(absl::flat_hash_map<std::string, Value>& names) {
  static constexpr std::pair<const char*, Function::Body> kFunctions[] = {{"dict", MakeDictOf},
                                                                          {"namespace", MakeNamespace},
                                                                          {"raise_exception", RaiseException},
                                                                          {"range", Range},
                                                                          {"strftime_now", FormatNow}};
  for (const auto& [name, body] : kFunctions) {
    names.insert_or_assign(name, Value(std::shared_ptr<Object>(std::make_shared<Function>(name, body))));
  }
}

std::string FormatTime(Context& context, std::string_view format, int64_t unix_seconds) {
  const auto seconds = static_cast<time_t>(unix_seconds);
  std::tm time = {};
  if (gmtime_r(&seconds, &time) == nullptr) {
    context.Fail(fmt::format("strftime_now: {} is no time", unix_seconds));
    return "";
  }
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool flagged =
        (format[i + 1] == '-' || format[i + 1] == '_' || format[i + 1] == '0') && i + 2 < format.size();
    const char directive[] = {'%', format[i + 1], flagged ? format[i + 2] : '\0', '\0'};
    const char letter = directive[flagged ? 2 : 1];
    i += flagged ? 2 : 1;
    if (letter == 'z' || letter == 'Z') continue;  // a time without a zone has no name for it
    if (std::string_view("aAbBcdDeFgGHhIjklmMnprRsStTuUVwWxXyY%C").find(letter) == std::string_view::npos) {
      out += directive;
      continue;
    }
    char buffer[128];
    out.append(buffer, std::strftime(buffer, sizeof buffer, directive, &time));
    if (!context.Charge(1)) return "";
  }
  return out;
}

}  // namespace spillway::jinja
