// The values of a template at run time, with Python's meaning: what templates are written against. Lists and
// dicts are immutable once made (the sandbox transformers renders in refuses to change them too), so values
// share them freely. A container knows how deep it nests; Context's limits keep that, and with it every
// recursion here, bounded.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/chat/context.h"

namespace spillway::jinja {

struct List;
struct Dict;
struct Object;

struct Undefined {
  std::shared_ptr<const std::string> reason;  // "'x' is undefined"; null where nobody will read it
};
struct None {};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(None) : data_(None{}) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(std::string value) : data_(std::make_shared<const std::string>(std::move(value))) {}
  explicit Value(std::string_view value) : Value(std::string(value)) {}
  explicit Value(const char* value) : Value(std::string(value)) {}
  explicit Value(std::shared_ptr<const List> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}
  static Value MakeUndefined(std::string reason) {
    Value value;
    value.data_ = Undefined{std::make_shared<const std::string>(std::move(reason))};
    return value;
  }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_bool() || is_integer() || is_float(); }
  bool is_string() const { return std::holds_alternative<std::shared_ptr<const std::string>>(data_); }
  bool is_list() const;      // or tuple
  bool is_iterator() const;  // what select, map and their like give: walked once, without length or items
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(data_); }
  bool is_object() const { return std::holds_alternative<std::shared_ptr<Object>>(data_); }
  bool is_integral() const { return is_bool() || is_integer(); }  // Python's bool is an int

  // Each only where the matching is_… holds.
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return is_bool() ? (boolean() ? 1 : 0) : std::get<int64_t>(data_); }
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const std::string& string() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const std::shared_ptr<const List>& shared_list() const {
    return std::get<std::shared_ptr<const List>>(data_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Object* object() const { return std::get<std::shared_ptr<Object>>(data_).get(); }
  std::string undefined_reason() const;

  int depth() const;  // levels of containers, 0 for plain values

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_iterator = false;
  mutable bool consumed = false;  // an iterator that was walked
  int depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;        // in order of insertion
  absl::flat_hash_map<std::string, size_t> positions;  // of string keys
  int depth = 1;

  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key, Context& context) const;
  void Set(Value key, Value value, Context& context);  // only while it is being made
};

// What is neither data nor plain: namespaces, functions, macros, loops.
struct Object {
  enum class Kind { kNamespace, kFunction, kMethod, kMacro, kLoop };
  explicit Object(Kind kind) : kind(kind) {}
  virtual ~Object() = default;
  const Kind kind;
  int depth = 0;
};

struct Namespace : Object {
  Namespace() : Object(Kind::kNamespace) {}
  absl::flat_hash_map<std::string, Value> attributes;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function : Object {
  using Body = Value (*)(Context&, const Arguments&);
  Function(std::string_view name, Body body) : Object(Kind::kFunction), name(name), body(body) {}
  std::string_view name;
  Body body;
};

// A method taken from a value and not yet called: x.items
struct Method : Object {
  Method(Value self, std::string name) : Object(Kind::kMethod), self(std::move(self)), name(std::move(name)) {
    depth = this->self.depth() + 1;
  }
  Value self;
  std::string name;
};

struct Loop : Object {
  Loop() : Object(Kind::kLoop) {}
  std::shared_ptr<const List> items;
  size_t index = 0;
  std::string changed_last;  // what loop.changed() last saw, as text: the values could hold the loop itself
};

// Containers; they fail, and give an undefined value, where nesting or work passes the limits.
Value MakeList(Context& context, std::vector<Value> items, bool is_tuple = false);
Value MakeIterator(Context& context, std::vector<Value> items);
Value MakeDict(Context& context, std::shared_ptr<Dict> dict);
// Charges for a string that was just built.
Value MakeString(Context& context, std::string text);

bool IsTrue(const Value& value);
bool Equals(Context& context, const Value& a, const Value& b);
// Less than, equal or greater: -1, 0, 1. Fails where Python raises a TypeError.
int Compare(Context& context, const Value& a, const Value& b);
bool Contains(Context& context, const Value& container, const Value& item);
// What a for loop walks: items, keys, characters; nothing for an undefined value. Fails for others.
std::shared_ptr<const List> ToIterable(Context& context, const Value& value);
// "int", "dict", … for messages.
std::string_view TypeName(const Value& value);

}  // namespace spillway::jinja
