// Arithmetic and comparison with Python's rules; integers that leave 64 bits are an error instead of growing.
#include <fmt/format.h>

#include <cmath>

#include "engine/chat/builtins.h"
#include "engine/chat/format.h"

namespace spillway::jinja {
namespace {

Value Unsupported(Context& context, std::string_view op, const Value& left, const Value& right) {
  const Value& bad = left.is_undefined() ? left : right;
  context.Fail(bad.is_undefined() ? bad.undefined_reason()
                                  : fmt::format("unsupported operands of {}: {} and {}", op, TypeName(left),
                                                TypeName(right)));
  return Value();
}

Value Overflow(Context& context) {
  context.Fail("an integer leaves 64 bits");
  return Value();
}

Value IntegerPower(Context& context, int64_t base, int64_t exponent) {
  if (exponent < 0) return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow(context);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow(context);
  }
  return Value(result);
}

Value IntegerArithmetic(Context& context, std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "**") {
    return IntegerPower(context, a, b);
  } else if (b == 0) {
    context.Fail("division by zero");
    return Value();
  } else if (op == "/") {
    return Value(static_cast<double>(a) / static_cast<double>(b));
  } else if (a == INT64_MIN && b == -1) {
    if (op == "%") return Value(int64_t{0});
    overflow = true;
  } else {  // Python rounds towards minus infinity
    const int64_t remainder = a % b;
    const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
    result = op == "%" ? remainder + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
  }
  return overflow ? Overflow(context) : Value(result);
}

Value FloatArithmetic(Context& context, std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) {
    context.Fail("division by zero");
    return Value();
  }
  if (op == "/") return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  return Value(op == "//" ? std::floor((a - remainder) / b + 0.5) : remainder);
}

Value Repeat(Context& context, const Value& value, int64_t times) {
  const auto count = static_cast<uint64_t>(times < 0 ? 0 : times);
  if (value.is_string()) {
    const uint64_t size = value.string().size();
    if (size == 0) return value;
    if (count > kMaxOutputBytes || !context.ChargeBytes(size * count)) {
      context.Fail("a string grows too large");
      return Value();
    }
    std::string text;
    text.reserve(size * count);
    for (uint64_t i = 0; i < count; ++i) text += value.string();
    return Value(std::move(text));
  }
  const auto& items = value.list().items;
  if (items.empty()) return value;
  if (count > kMaxWork || !context.Charge(4 * items.size() * count)) {
    context.Fail("a list grows too large");
    return Value();
  }
  std::vector<Value> repeated;
  for (uint64_t i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  return MakeList(context, std::move(repeated), value.list().is_tuple);
}

Value Join(Context& context, const List& left, const List& right) {
  if (!context.Charge(4 * (left.items.size() + right.items.size()))) return Value();
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return MakeList(context, std::move(items), left.is_tuple);
}

}  // namespace

Value ApplyBinary(Context& context, std::string_view op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float())
      return FloatArithmetic(context, op, left.number(), right.number());
    return IntegerArithmetic(context, op, left.integer(), right.integer());
  }
  if (op == "+" && left.is_string() && right.is_string()) {
    if (!context.ChargeBytes(left.string().size() + right.string().size())) return Value();
    return Value(left.string() + right.string());
  }
  if (op == "+" && left.is_list() && right.is_list() && left.list().is_tuple == right.list().is_tuple) {
    return Join(context, left.list(), right.list());
  }
  if (op == "%" && left.is_string()) {
    return MakeString(context, PercentFormat(context, left.string(), right));
  }
  if (op == "*" && (left.is_string() || left.is_list()) && right.is_integral()) {
    return Repeat(context, left, right.integer());
  }
  if (op == "*" && left.is_integral() && (right.is_string() || right.is_list())) {
    return Repeat(context, right, left.integer());
  }
  return Unsupported(context, op, left, right);
}

Value Negate(Context& context, const Value& value) {
  if (value.is_float()) return Value(-value.number());
  if (value.is_integral()) return IntegerArithmetic(context, "-", 0, value.integer());
  context.Fail(value.is_undefined() ? value.undefined_reason()
                                    : fmt::format("a {} has no negative", TypeName(value)));
  return Value();
}

bool ApplyComparison(Context& context, std::string_view op, const Value& left, const Value& right) {
  if (op == "==") return Equals(context, left, right);
  if (op == "!=") return !Equals(context, left, right);
  if (op == "in") return Contains(context, right, left);
  if (op == "not in") return !Contains(context, right, left);
  const bool has_nan =
      (left.is_float() && std::isnan(left.number())) || (right.is_float() && std::isnan(right.number()));
  const int order = Compare(context, left, right);
  if (has_nan) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

}  // namespace spillway::jinja
