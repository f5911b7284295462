// The tests behind "x is name".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/chat/builtins.h"
#include "engine/chat/text.h"

namespace spillway::jinja {
namespace {

using Body = bool (*)(Context&, const Value& input, const Value& argument);
struct Entry {
  std::string_view name;
  int n_arguments;
  Body body;
};

bool IsSequence(const Value& v) { return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined(); }
bool IsCallable(const Value& v) {
  return v.is_object() && v.object()->kind != Object::Kind::kNamespace &&
         v.object()->kind != Object::Kind::kLoop;
}

// The remainder by two, -1 after failing.
int64_t Parity(Context& context, const Value& v) {
  if (v.is_integral()) return v.integer() & 1;
  context.Fail(fmt::format("a {} is neither odd nor even", TypeName(v)));
  return -1;
}

bool DivisibleBy(Context& context, const Value& v, const Value& by) {
  if (v.is_integral() && by.is_integral() && by.integer() != 0)
    return by.integer() == -1 || v.integer() % by.integer() == 0;
  if (v.is_number() && by.is_number() && by.number() != 0) return std::fmod(v.number(), by.number()) == 0;
  context.Fail(fmt::format("divisibleby needs integers, not {} and {}", TypeName(v), TypeName(by)));
  return false;
}

bool SameAs(Context& context, const Value& a, const Value& b) {
  return TypeName(a) == TypeName(b) && Equals(context, a, b);
}

bool HasTest(std::string_view name);

template <bool (Value::*property)() const>
bool Is(Context&, const Value& v, const Value&) {
  return (v.*property)();
}

template <char op>
bool Ordered(Context& context, const Value& a, const Value& b) {
  return ApplyComparison(context,
                         op == '<'   ? "<"
                         : op == '>' ? ">"
                         : op == 'l' ? "<="
                         : op == 'g' ? ">="
                         : op == 'n' ? "!="
                                     : "==",
                         a, b);
}

constexpr Entry kTests[] = {
    {"!=", 1, Ordered<'n'>},
    {"<", 1, Ordered<'<'>},
    {"<=", 1, Ordered<'l'>},
    {"==", 1, Ordered<'='>},
    {">", 1, Ordered<'>'>},
    {">=", 1, Ordered<'g'>},
    {"boolean", 0, Is<&Value::is_bool>},
    {"callable", 0, [](Context&, const Value& v, const Value&) { return IsCallable(v); }},
    {"defined", 0, [](Context&, const Value& v, const Value&) { return !v.is_undefined(); }},
    {"divisibleby", 1, DivisibleBy},
    {"eq", 1, Ordered<'='>},
    {"equalto", 1, Ordered<'='>},
    {"even", 0, [](Context& c, const Value& v, const Value&) { return Parity(c, v) == 0; }},
    {"false", 0, [](Context&, const Value& v, const Value&) { return v.is_bool() && !v.boolean(); }},
    {"filter", 0,
     [](Context&, const Value& v, const Value&) { return v.is_string() && HasFilter(v.string()); }},
    {"float", 0, Is<&Value::is_float>},
    {"ge", 1, Ordered<'g'>},
    {"greaterthan", 1, Ordered<'>'>},
    {"gt", 1, Ordered<'>'>},
    {"in", 1, [](Context& c, const Value& v, const Value& in) { return Contains(c, in, v); }},
    {"integer", 0, Is<&Value::is_integer>},
    {"iterable", 0, [](Context&, const Value& v, const Value&) { return IsSequence(v) || v.is_iterator(); }},
    {"le", 1, Ordered<'l'>},
    {"lessthan", 1, Ordered<'<'>},
    {"lower", 0,
     [](Context&, const Value& v, const Value&) { return v.is_string() && IsLowerText(v.string()); }},
    {"lt", 1, Ordered<'<'>},
    {"mapping", 0, Is<&Value::is_dict>},
    {"ne", 1, Ordered<'n'>},
    {"none", 0, Is<&Value::is_none>},
    {"number", 0, Is<&Value::is_number>},
    {"odd", 0, [](Context& c, const Value& v, const Value&) { return Parity(c, v) == 1; }},
    {"sameas", 1, SameAs},
    {"sequence", 0, [](Context&, const Value& v, const Value&) { return IsSequence(v); }},
    {"string", 0, Is<&Value::is_string>},
    {"test", 0, [](Context&, const Value& v, const Value&) { return v.is_string() && HasTest(v.string()); }},
    {"true", 0, [](Context&, const Value& v, const Value&) { return v.is_bool() && v.boolean(); }},
    {"undefined", 0, Is<&Value::is_undefined>},
    {"upper", 0,
     [](Context&, const Value& v, const Value&) { return v.is_string() && IsUpperText(v.string()); }},
};

bool HasTest(std::string_view name) {
  return std::any_of(std::begin(kTests), std::end(kTests), [name](const Entry& e) { return e.name == name; });
}

}  // namespace

bool ApplyTest(Context& context, std::string_view name, const Value& input, const Arguments& arguments) {
  const auto test =
      std::find_if(std::begin(kTests), std::end(kTests), [name](const Entry& e) { return e.name == name; });
  if (test == std::end(kTests)) {
    context.Fail(fmt::format("unknown test '{}'", name));
    return false;
  }
  if (arguments.positional.size() != static_cast<size_t>(test->n_arguments) || !arguments.named.empty()) {
    context.Fail(fmt::format("the test '{}' takes {} arguments", name, test->n_arguments));
    return false;
  }
  if (input.is_string() && !context.ChargeBytes(input.string().size())) return false;
  return test->body(context, input, arguments.positional.empty() ? Value() : arguments.positional[0]);
}

}  // namespace spillway::jinja
