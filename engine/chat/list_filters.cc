// Filters of sequences and dicts.
#include <fmt/format.h>

#include <algorithm>

#include "engine/chat/builtins.h"
#include "engine/chat/filters.h"
#include "engine/chat/text.h"
#include "engine/chat/value_text.h"

namespace spillway::jinja {
namespace {

// "a.b.0" walked from the item; the item itself for no path.
Value Walk(Context& context, Value item, const Value& path) {
  if (path.is_undefined() || path.is_none()) return item;
  if (path.is_integral()) return GetItem(context, item, path);
  const std::string text = ToText(context, path);
  size_t begin = 0;
  while (begin <= text.size() && !context.failed()) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool is_index =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    item = GetItem(context, item, is_index ? Value(static_cast<int64_t>(std::stoll(part))) : Value(part));
    begin = end + 1;
  }
  return item;
}

// What items are ordered or compared by: their attribute, strings without case unless asked.
Value SortKey(Context& context, const Value& item, const Value& attribute, bool case_sensitive) {
  Value key = Walk(context, item, attribute);
  if (case_sensitive || !key.is_string()) return key;
  return MakeString(context, Lower(key.string()));
}

Value Length(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "length", arguments, {});
  if (input.is_string()) {
    if (!context.ChargeBytes(input.string().size())) return Value();
    return Value(static_cast<int64_t>(CountCharacters(input.string())));
  }
  if (input.is_list()) return Value(static_cast<int64_t>(input.list().items.size()));
  if (input.is_dict()) return Value(static_cast<int64_t>(input.dict().entries.size()));
  if (!input.is_undefined()) context.Fail(fmt::format("a {} has no length", TypeName(input)));
  return Value(int64_t{0});
}

Value ToList(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "list", arguments, {});
  const auto items = ToIterable(context, input);
  return items == nullptr ? Value() : MakeList(context, items->items);
}

Value First(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "first", arguments, {});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  return items->items.empty() ? Value::MakeUndefined("first: the sequence is empty") : items->items.front();
}

Value Last(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "last", arguments, {});
  if (input.is_iterator()) context.Fail("last: a generator has no end to start from");
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  return items->items.empty() ? Value::MakeUndefined("last: the sequence is empty") : items->items.back();
}

Value Reverse(Context& context, const Value& input, const Arguments& arguments) {
  Bind(context, "reverse", arguments, {});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  if (!input.is_string()) return MakeIterator(context, std::move(reversed));
  std::string text;
  for (const Value& character : reversed) text += character.string();
  return MakeString(context, std::move(text));
}

Value Join(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "join", arguments, {"d", "attribute"});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  const std::string separator = ToText(context, bound[0]);
  std::string text;
  for (size_t i = 0; i < items->items.size() && context.ChargeBytes(separator.size()); ++i) {
    if (i > 0) text += separator;
    text += ToText(context, Walk(context, items->items[i], bound[1]));
  }
  return MakeString(context, std::move(text));
}

Value Items(Context& context, const Value& input, const Arguments& arguments) {
  if (input.is_undefined()) return MakeIterator(context, {});
  if (input.is_dict()) {
    const Value items = CallMethod(context, Method(input, "items"), arguments);
    return items.is_list() ? MakeIterator(context, items.list().items) : Value();
  }
  context.Fail(fmt::format("items needs a dict, not {}", TypeName(input)));
  return Value();
}

// The arguments after the first `count`.
Arguments Rest(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.named = arguments.named;
  if (arguments.positional.size() > count) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
  }
  return rest;
}

// What map and select walk: as Jinja they look first whether there is anything, so none and 0 are empty, too.
std::shared_ptr<const List> ToWalk(Context& context, const Value& input) {
  return ToIterable(context, IsTrue(input) ? input : Value());
}

Value Map(Context& context, const Value& input, const Arguments& arguments) {
  const auto items = ToWalk(context, input);
  if (items == nullptr) return Value();
  std::vector<Value> mapped;
  if (arguments.positional.empty()) {
    const auto bound = Bind(context, "map", arguments, {"attribute", "default"});
    for (const Value& item : items->items) {
      Value value = Walk(context, item, bound[0]);
      if (value.is_undefined() && !bound[1].is_undefined()) value = bound[1];
      mapped.push_back(std::move(value));
      if (context.failed()) return Value();
    }
    return MakeIterator(context, std::move(mapped));
  }
  const std::string filter = ToText(context, arguments.positional[0]);
  const Arguments rest = Rest(arguments, 1);
  for (const Value& item : items->items) {
    if (!context.Charge(1)) return Value();
    mapped.push_back(ApplyFilter(context, filter, item, rest));
  }
  return MakeIterator(context, std::move(mapped));
}

// select, reject, selectattr, rejectattr: items whose value (or attribute) passes a test, or is true without
// one.
Value Keep(Context& context, const Value& input, const Arguments& arguments, bool by_attribute, bool wanted) {
  const auto items = ToWalk(context, input);
  if (items == nullptr) return Value();
  const size_t skip = by_attribute ? 1 : 0;
  if (arguments.positional.size() < skip) {
    context.Fail("selectattr and rejectattr need an attribute");
    return Value();
  }
  const bool has_test = arguments.positional.size() > skip;
  const std::string test = has_test ? ToText(context, arguments.positional[skip]) : "";
  const Arguments rest = Rest(arguments, skip + 1);
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    if (!context.Charge(1)) return Value();
    const Value value = by_attribute ? Walk(context, item, arguments.positional[0]) : item;
    if (context.failed()) return Value();
    if ((has_test ? ApplyTest(context, test, value, rest) : IsTrue(value)) == wanted) kept.push_back(item);
  }
  return MakeIterator(context, std::move(kept));
}

template <bool by_attribute, bool wanted>
Value KeepIf(Context& context, const Value& input, const Arguments& arguments) {
  return Keep(context, input, arguments, by_attribute, wanted);
}

// Items in the order of their keys; equal ones stay as they were.
std::vector<Value> Sorted(Context& context, const std::vector<Value>& items, const std::vector<Value>& keys,
                          bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Value& left = keys[reverse ? b : a];
    const Value& right = keys[reverse ? a : b];
    // Attributes that are missing on both sides are equal, though they have no order.
    if (context.failed() || (left.is_undefined() && right.is_undefined())) return false;
    return Compare(context, left, right) < 0;
  });
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Value Sort(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  std::vector<Value> keys;
  for (const Value& item : items->items) keys.push_back(SortKey(context, item, bound[2], IsTrue(bound[1])));
  return MakeList(context, Sorted(context, items->items, keys, IsTrue(bound[0])));
}

Value DictSort(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.is_dict()) {
    context.Fail(fmt::format("dictsort needs a dict, not {}", TypeName(input)));
    return Value();
  }
  const Value pairs = CallMethod(context, Method(input, "items"), {});
  if (!pairs.is_list()) return Value();
  const int64_t position = bound[1].is_string() && bound[1].string() == "value" ? 1 : 0;
  std::vector<Value> keys;
  for (const Value& pair : pairs.list().items) {
    keys.push_back(SortKey(context, pair, Value(position), IsTrue(bound[0])));
  }
  return MakeList(context, Sorted(context, pairs.list().items, keys, IsTrue(bound[2])));
}

Value Unique(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "unique", arguments, {"case_sensitive", "attribute"});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    const Value key = SortKey(context, item, bound[1], IsTrue(bound[0]));
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& other) { return Equals(context, other, key); }))
      continue;
    if (context.failed()) return Value();
    seen.push_back(key);
    kept.push_back(item);
  }
  return MakeIterator(context, std::move(kept));
}

// The least (sign -1) or greatest (1) item, the first of equals.
Value Extreme(Context& context, const Value& input, const Arguments& arguments, int sign) {
  const auto bound = Bind(context, "min and max", arguments, {"case_sensitive", "attribute"});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  Value best = Value::MakeUndefined("the sequence is empty");
  Value best_key;
  bool first = true;
  for (const Value& item : items->items) {
    const Value key = SortKey(context, item, bound[1], IsTrue(bound[0]));
    if (first || Compare(context, key, best_key) == sign) {
      best = item;
      best_key = key;
    }
    first = false;
    if (context.failed()) return Value();
  }
  return best;
}
Value Least(Context& c, const Value& input, const Arguments& a) { return Extreme(c, input, a, -1); }
Value Greatest(Context& c, const Value& input, const Arguments& a) { return Extreme(c, input, a, 1); }

Value Sum(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "sum", arguments, {"attribute", "start"});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  Value total = bound[1].is_undefined() ? Value(int64_t{0}) : bound[1];
  for (const Value& item : items->items) {
    total = ApplyBinary(context, "+", total, Walk(context, item, bound[0]));
    if (!context.Charge(1)) return Value();
  }
  return total;
}

Value GroupBy(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "groupby", arguments, {"attribute", "default"});
  const auto items = ToIterable(context, input);
  if (items == nullptr) return Value();
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    Value key = Walk(context, item, bound[0]);
    if (key.is_undefined() && !bound[1].is_undefined()) key = bound[1];
    keys.push_back(std::move(key));
    pairs.push_back(MakeList(context, {keys.back(), item}, true));
    if (context.failed()) return Value();
  }
  std::vector<Value> groups;
  std::vector<Value> group;
  const std::vector<Value> sorted = Sorted(context, pairs, keys, false);
  if (context.failed()) return Value();
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Value& key = sorted[i].list().items[0];
    group.push_back(sorted[i].list().items[1]);
    if (i + 1 < sorted.size() && Equals(context, key, sorted[i + 1].list().items[0])) continue;
    groups.push_back(MakeList(context, {key, MakeList(context, std::exchange(group, {}))}, true));
  }
  return MakeList(context, std::move(groups));
}

Value Batch(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "batch", arguments, {"linecount", "fill_with"});
  const auto items = ToIterable(context, input);
  const int64_t count = bound[0].is_integral() ? bound[0].integer() : 0;
  if (count < 1 || count > 100'000) context.Fail(fmt::format("batch: lines of {} items", count));
  if (items == nullptr || context.failed()) return Value();
  const auto width = static_cast<size_t>(count);
  std::vector<Value> lines;
  for (size_t begin = 0; begin < items->items.size(); begin += width) {
    const size_t end = std::min(begin + width, items->items.size());
    std::vector<Value> line(items->items.begin() + static_cast<std::ptrdiff_t>(begin),
                            items->items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!bound[1].is_undefined()) line.resize(width, bound[1]);
    lines.push_back(MakeList(context, std::move(line)));
  }
  return MakeIterator(context, std::move(lines));
}

// So many columns, the first ones longer where it does not come out even.
Value Slice(Context& context, const Value& input, const Arguments& arguments) {
  const auto bound = Bind(context, "slice", arguments, {"slices", "fill_with"});
  const auto items = ToIterable(context, input);
  const int64_t count = bound[0].is_integral() ? bound[0].integer() : 0;
  if (count < 1 || count > 100'000) context.Fail(fmt::format("slice: {} slices", count));
  if (items == nullptr || context.failed()) return Value();
  const size_t width = items->items.size() / static_cast<size_t>(count);
  const size_t longer = items->items.size() % static_cast<size_t>(count);
  std::vector<Value> slices;
  auto next = items->items.begin();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(width + (i < longer ? 1 : 0));
    std::vector<Value> slice(next, end);
    if (i >= longer && !bound[1].is_undefined() && !bound[1].is_none()) slice.push_back(bound[1]);
    slices.push_back(MakeList(context, std::move(slice)));
    next = end;
  }
  return MakeIterator(context, std::move(slices));
}

constexpr FilterEntry kFilters[] = {
    {"batch", Batch},
    {"count", Length},
    {"dictsort", DictSort},
    {"first", First},
    {"groupby", GroupBy},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", ToList},
    {"map", Map},
    {"max", Greatest},
    {"min", Least},
    {"reject", KeepIf<false, false>},
    {"rejectattr", KeepIf<true, false>},
    {"reverse", Reverse},
    {"select", KeepIf<false, true>},
    {"selectattr", KeepIf<true, true>},
    {"slice", Slice},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

std::span<const FilterEntry> ListFilters() { return kFilters; }

}  // namespace spillway::jinja
