// Attributes, items and slices.
#include <fmt/format.h>

#include <algorithm>

#include "engine/chat/builtins.h"
#include "engine/chat/text.h"

namespace spillway::jinja {
namespace {

Value Missing(const Value& value, std::string_view name) {
  return Value::MakeUndefined(fmt::format("'{} object' has no attribute '{}'", TypeName(value), name));
}

Value LoopAttribute(Context& context, const Loop& loop, const Value& self, std::string_view name) {
  const auto size = static_cast<int64_t>(loop.items->items.size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == size);
  if (name == "length") return Value(size);
  if (name == "revindex") return Value(size - index);
  if (name == "revindex0") return Value(size - index - 1);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem" && index > 0) return loop.items->items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items->items[loop.index + 1];
  if (name == "previtem") return Value::MakeUndefined("there is no previous item");
  if (name == "nextitem") return Value::MakeUndefined("there is no next item");
  if (name == "cycle" || name == "changed") {
    return Value(std::shared_ptr<Object>(std::make_shared<Method>(self, std::string(name))));
  }
  return Missing(self, name);
}

// An index counted from the end where negative; size where out of range.
size_t Position(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  return index < 0 || static_cast<size_t>(index) >= size ? size : static_cast<size_t>(index);
}

}  // namespace

Value GetAttribute(Context& context, const Value& value, std::string_view name) {
  if (value.is_undefined()) {
    context.Fail(value.undefined_reason());
    return Value();
  }
  if (HasMethod(value, name)) {
    auto method = std::make_shared<Method>(value, std::string(name));
    if (method->depth > kMaxValueDepth) context.Fail("values nest too deep");
    return Value(std::shared_ptr<Object>(std::move(method)));
  }
  if (value.is_dict()) {
    const Value* found = value.dict().Find(name);
    return found != nullptr ? *found : Missing(value, name);
  }
  if (value.is_object() && value.object()->kind == Object::Kind::kNamespace) {
    const auto& attributes = static_cast<const Namespace*>(value.object())->attributes;
    const auto found = attributes.find(absl::string_view(name.data(), name.size()));
    return found != attributes.end() ? found->second : Missing(value, name);
  }
  if (value.is_object() && value.object()->kind == Object::Kind::kLoop) {
    return LoopAttribute(context, *static_cast<const Loop*>(value.object()), value, name);
  }
  return Missing(value, name);
}

Value GetItem(Context& context, const Value& value, const Value& key) {
  if (value.is_undefined()) {
    context.Fail(value.undefined_reason());
    return Value();
  }
  if (value.is_dict()) {
    if (const Value* found = value.dict().Find(key, context)) return *found;
  } else if (value.is_list() && key.is_integral()) {
    const auto& items = value.list().items;
    const size_t position = Position(key.integer(), items.size());
    if (position < items.size()) return items[position];
    return Value::MakeUndefined(fmt::format("'{} object' has no element {}", TypeName(value), key.integer()));
  } else if (value.is_string() && key.is_integral()) {
    if (!context.ChargeBytes(value.string().size())) return Value();
    const auto characters = Characters(value.string());
    const size_t position = Position(key.integer(), characters.size());
    if (position < characters.size()) return Value(characters[position]);
    return Value::MakeUndefined(fmt::format("'str object' has no element {}", key.integer()));
  }
  if (key.is_string()) return GetAttribute(context, value, key.string());
  return Value::MakeUndefined(fmt::format("'{} object' has no such element", TypeName(value)));
}

Value GetSlice(Context& context, const Value& value, const Value& start, const Value& stop,
               const Value& step) {
  if (!value.is_string() && !value.is_list()) {
    context.Fail(value.is_undefined() ? value.undefined_reason()
                                      : fmt::format("a {} cannot be sliced", TypeName(value)));
    return Value();
  }
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->is_undefined() || bound->is_none() || bound->is_integral()) continue;
    context.Fail(fmt::format("a slice's bound is a {}", TypeName(*bound)));
    return Value();
  }
  if (value.is_string() && !context.ChargeBytes(value.string().size())) return Value();
  const std::vector<std::string_view> characters =
      value.is_string() ? Characters(value.string()) : std::vector<std::string_view>();
  const auto size = static_cast<int64_t>(value.is_string() ? characters.size() : value.list().items.size());
  const int64_t stride = step.is_integral() ? step.integer() : 1;
  if (stride == 0) {
    context.Fail("a slice's step is zero");
    return Value();
  }
  const bool forward = stride > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? size : size - 1;
  const auto clamp = [&](const Value& bound, int64_t fallback) {
    if (!bound.is_integral()) return fallback;
    const int64_t index = bound.integer() < 0 ? bound.integer() + size : bound.integer();
    return std::clamp(index, low, high);
  };
  const int64_t begin = clamp(start, forward ? 0 : size - 1);
  const int64_t end = clamp(stop, forward ? size : -1);
  const int64_t distance = forward ? end - begin : begin - end;
  const uint64_t width = forward ? static_cast<uint64_t>(stride) : 0 - static_cast<uint64_t>(stride);
  const uint64_t count = distance <= 0 ? 0 : (static_cast<uint64_t>(distance) - 1) / width + 1;
  std::string text;
  std::vector<Value> items;
  int64_t at = begin;
  for (uint64_t i = 0; i < count; ++i) {
    if (value.is_string()) {
      text += characters[static_cast<size_t>(at)];
    } else {
      items.push_back(value.list().items[static_cast<size_t>(at)]);
    }
    if (i + 1 < count) at += stride;
  }
  if (value.is_string()) return MakeString(context, std::move(text));
  return MakeList(context, std::move(items), value.list().is_tuple);
}

std::vector<Value> Bind(Context& context, std::string_view callee, const Arguments& arguments,
                        std::initializer_list<std::string_view> parameters) {
  std::vector<Value> bound(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    context.Fail(fmt::format("{} takes at most {} arguments, not {}", callee, parameters.size(),
                             arguments.positional.size()));
    return bound;
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::find(parameters.begin(), parameters.end(), name);
    if (parameter == parameters.end()) {
      context.Fail(fmt::format("{} has no parameter '{}'", callee, name));
      return bound;
    }
    bound[static_cast<size_t>(parameter - parameters.begin())] = value;
  }
  return bound;
}

}  // namespace spillway::jinja
