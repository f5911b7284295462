// Python's truth, equality, order and membership for template values.
#include "engine/chat/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/tokenizer/utf8.h"

namespace spillway::jinja {

std::string Value::undefined_reason() const {
  const auto& reason = std::get<Undefined>(data_).reason;
  return reason == nullptr ? "a value is undefined" : *reason;
}

bool Value::is_list() const {
  const auto* held = std::get_if<std::shared_ptr<const List>>(&data_);
  return held != nullptr && !(*held)->is_iterator;
}

bool Value::is_iterator() const {
  const auto* held = std::get_if<std::shared_ptr<const List>>(&data_);
  return held != nullptr && (*held)->is_iterator;
}

int Value::depth() const {
  if (is_list() || is_iterator()) return list().depth;
  if (is_dict()) return dict().depth;
  if (is_object()) return object()->depth;
  return 0;
}

const Value* Dict::Find(std::string_view key) const {
  const auto position = positions.find(absl::string_view(key.data(), key.size()));
  return position == positions.end() ? nullptr : &entries[position->second].second;
}

const Value* Dict::Find(const Value& key, Context& context) const {
  if (key.is_string()) return Find(key.string());
  for (const auto& [candidate, value] : entries) {
    if (!candidate.is_string() && Equals(context, candidate, key)) return &value;
  }
  return nullptr;
}

void Dict::Set(Value key, Value value, Context& context) {
  depth = std::max(depth, std::max(key.depth(), value.depth()) + 1);
  if (const Value* present = Find(key, context)) {
    const auto position =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return &e.second == present; });
    position->second = std::move(value);
    return;
  }
  if (key.is_string()) positions.emplace(key.string(), entries.size());
  entries.emplace_back(std::move(key), std::move(value));
}

namespace {

Value MakeSequence(Context& context, std::vector<Value> items, bool is_tuple, bool is_iterator) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = std::max(list->depth, item.depth() + 1);
  if (list->depth > kMaxValueDepth) context.Fail("lists nest too deep");
  if (!context.Charge(4 * items.size() + 1)) return Value();
  list->items = std::move(items);
  list->is_tuple = is_tuple;
  list->is_iterator = is_iterator;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

}  // namespace

Value MakeList(Context& context, std::vector<Value> items, bool is_tuple) {
  return MakeSequence(context, std::move(items), is_tuple, false);
}

Value MakeIterator(Context& context, std::vector<Value> items) {
  return MakeSequence(context, std::move(items), false, true);
}

Value MakeDict(Context& context, std::shared_ptr<Dict> dict) {
  if (dict->depth > kMaxValueDepth) context.Fail("dicts nest too deep");
  if (!context.Charge(8 * dict->entries.size() + 1)) return Value();
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value MakeString(Context& context, std::string text) {
  if (!context.ChargeBytes(text.size())) return Value();
  return Value(std::move(text));
}

bool IsTrue(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_bool()) return value.boolean();
  if (value.is_integer()) return value.integer() != 0;
  if (value.is_float()) return value.number() != 0;
  if (value.is_string()) return !value.string().empty();
  if (value.is_list()) return !value.list().items.empty();
  if (value.is_dict()) return !value.dict().entries.empty();
  return true;
}

bool Equals(Context& context, const Value& a, const Value& b) {
  if (!context.Charge(1)) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.number() == b.number();
    return a.integer() == b.integer();
  }
  if (a.is_string() && b.is_string())
    return context.ChargeBytes(a.string().size()) && a.string() == b.string();
  if (a.is_list() && b.is_list()) {
    const List& left = a.list();
    const List& right = b.list();
    if (left.is_tuple != right.is_tuple || left.items.size() != right.items.size()) return false;
    for (size_t i = 0; i < left.items.size(); ++i) {
      if (!Equals(context, left.items[i], right.items[i])) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().entries.size() != b.dict().entries.size()) return false;
    for (const auto& [key, value] : a.dict().entries) {
      const Value* other = b.dict().Find(key, context);
      if (other == nullptr || !Equals(context, value, *other)) return false;
    }
    return true;
  }
  if (a.is_object() && b.is_object()) return a.object() == b.object();
  if (a.is_iterator() && b.is_iterator()) return &a.list() == &b.list();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int Compare(Context& context, const Value& a, const Value& b) {
  if (!context.Charge(1)) return 0;
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.is_string() && b.is_string()) {  // UTF-8's byte order is that of code points
    context.ChargeBytes(std::min(a.string().size(), b.string().size()));
    const int order = a.string().compare(b.string());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_list() && b.is_list() && a.list().is_tuple == b.list().is_tuple) {
    const auto& left = a.list().items;
    const auto& right = b.list().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!Equals(context, left[i], right[i])) return Compare(context, left[i], right[i]);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  const Value& bad = b.is_undefined() ? b : a;
  context.Fail(bad.is_undefined() ? bad.undefined_reason()
                                  : fmt::format("cannot order {} and {}", TypeName(a), TypeName(b)));
  return 0;
}

bool Contains(Context& context, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      context.Fail(fmt::format("'in <string>' needs a string on its left, not {}", TypeName(item)));
      return false;
    }
    return context.ChargeBytes(container.string().size()) &&
           container.string().find(item.string()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().Find(item, context) != nullptr;
  const auto items = ToIterable(context, container);
  if (items == nullptr) return false;
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& candidate) { return Equals(context, candidate, item); });
}

std::shared_ptr<const List> ToIterable(Context& context, const Value& value) {
  if (value.is_list()) return value.shared_list();
  if (value.is_iterator() && !std::exchange(value.list().consumed, true)) return value.shared_list();
  std::vector<Value> items;
  if (value.is_dict()) {
    for (const auto& entry : value.dict().entries) items.push_back(entry.first);
  } else if (value.is_string()) {
    if (!context.Charge(8 * value.string().size())) return nullptr;
    for (std::string_view rest = value.string(); !rest.empty();) {
      const size_t length = NextUtf8(rest).length;
      items.emplace_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
  } else if (!value.is_undefined() && !value.is_iterator()) {
    context.Fail(fmt::format("'{}' is not iterable", TypeName(value)));
    return nullptr;
  }
  const Value list = MakeList(context, std::move(items));
  return list.is_list() ? list.shared_list() : nullptr;
}

std::string_view TypeName(const Value& value) {
  if (value.is_undefined()) return "undefined";
  if (value.is_none()) return "none";
  if (value.is_bool()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_string()) return "str";
  if (value.is_list()) return value.list().is_tuple ? "tuple" : "list";
  if (value.is_iterator()) return "generator";
  if (value.is_dict()) return "dict";
  switch (value.object()->kind) {
    case Object::Kind::kNamespace:
      return "namespace";
    case Object::Kind::kLoop:
      return "loop";
    case Object::Kind::kMacro:
      return "macro";
    case Object::Kind::kFunction:
    case Object::Kind::kMethod:
      return "function";
  }
  return "object";
}

}  // namespace spillway::jinja
