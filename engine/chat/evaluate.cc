// Expressions of the interpreter.
#include <fmt/format.h>

#include <utility>

#include "engine/chat/builtins.h"
#include "engine/chat/interpreter.h"
#include "engine/chat/value_text.h"

namespace spillway::jinja {

Value Interpreter::Lookup(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second;
  }
  return Value::MakeUndefined(fmt::format("'{}' is undefined", name));
}

Value Interpreter::Evaluate(const Expression& expression) {
  if (!context_.Charge(1)) return Value();
  if (depth_ >= kMaxEvaluationDepth) {
    context_.Fail("macros or expressions nest too deep");
    return Value();
  }
  ++depth_;
  context_.line = expression.line;
  Value value = EvaluateNode(expression);
  --depth_;
  return value;
}

Value Interpreter::EvaluateNode(const Expression& expression) {
  using Kind = Expression::Kind;
  const auto child = [&](size_t i) { return Evaluate(*expression.children[i]); };
  switch (expression.kind) {
    case Kind::kLiteral:
      return expression.literal;
    case Kind::kName:
      return Lookup(expression.text);
    case Kind::kCaptured:
      return captured_;
    case Kind::kList:
    case Kind::kTuple:
      return EvaluateList(expression);
    case Kind::kDict:
      return EvaluateDict(expression);
    case Kind::kAttribute:
      return GetAttribute(context_, child(0), expression.text);
    case Kind::kSubscript: {
      const Value value = child(0);
      return GetItem(context_, value, child(1));
    }
    case Kind::kSlice: {
      const Value value = child(0);
      const Value start = EvaluateOptional(expression.children[1]);
      const Value stop = EvaluateOptional(expression.children[2]);
      return GetSlice(context_, value, start, stop, EvaluateOptional(expression.children[3]));
    }
    case Kind::kCall: {
      const Value callee = child(0);
      return Call(callee, EvaluateArguments(expression));
    }
    case Kind::kFilter: {
      const Value input = child(0);
      const Arguments arguments = EvaluateArguments(expression);
      return context_.failed() ? Value() : ApplyFilter(context_, expression.text, input, arguments);
    }
    case Kind::kTest: {
      const Value input = child(0);
      const Arguments arguments = EvaluateArguments(expression);
      return context_.failed() ? Value() : Value(ApplyTest(context_, expression.text, input, arguments));
    }
    case Kind::kNot:
      return Value(!IsTrue(child(0)));
    case Kind::kNegate:
      return Negate(context_, child(0));
    case Kind::kPositive:
      return ApplyBinary(context_, "+", Value(int64_t{0}), child(0));
    case Kind::kBinary: {
      const Value left = child(0);
      const Value right = child(1);
      return context_.failed() ? Value() : ApplyBinary(context_, expression.text, left, right);
    }
    case Kind::kConcat:
      return EvaluateConcat(expression);
    case Kind::kCompare:
      return EvaluateCompare(expression);
    case Kind::kAnd: {
      Value left = child(0);
      return IsTrue(left) ? child(1) : left;
    }
    case Kind::kOr: {
      Value left = child(0);
      return IsTrue(left) ? left : child(1);
    }
    case Kind::kConditional:
      return EvaluateConditional(expression);
  }
  return Value();
}

Value Interpreter::EvaluateList(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.children.size());
  for (const ExpressionPtr& child : expression.children) items.push_back(Evaluate(*child));
  return MakeList(context_, std::move(items), expression.kind == Expression::Kind::kTuple);
}

Value Interpreter::EvaluateDict(const Expression& expression) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < expression.children.size() && !context_.failed(); i += 2) {
    Value key = Evaluate(*expression.children[i]);
    Value value = Evaluate(*expression.children[i + 1]);
    if (key.is_dict() || key.is_undefined() || (key.is_list() && !key.list().is_tuple)) {
      context_.Fail(fmt::format("a {} cannot be a key", TypeName(key)));
      return Value();
    }
    dict->Set(std::move(key), std::move(value), context_);
  }
  return MakeDict(context_, std::move(dict));
}

Value Interpreter::EvaluateConcat(const Expression& expression) {
  std::string text;
  for (const ExpressionPtr& child : expression.children) text += ToText(context_, Evaluate(*child));
  return MakeString(context_, std::move(text));
}

Value Interpreter::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.children[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.children[i + 1]);
    if (context_.failed() || !ApplyComparison(context_, expression.operators[i], left, right))
      return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::EvaluateConditional(const Expression& expression) {
  if (IsTrue(Evaluate(*expression.children[1]))) return Evaluate(*expression.children[0]);
  if (expression.children[2] != nullptr) return Evaluate(*expression.children[2]);
  return Value::MakeUndefined("the inline if-expression evaluated to false and has no else");
}

Arguments Interpreter::EvaluateArguments(const Expression& call) {
  Arguments arguments;
  for (size_t i = 1; i < call.children.size(); ++i)
    arguments.positional.push_back(Evaluate(*call.children[i]));
  for (const auto& [name, value] : call.named) arguments.named.emplace_back(name, Evaluate(*value));
  context_.line = call.line;
  return arguments;
}

Value Interpreter::Call(const Value& callee, const Arguments& arguments) {
  if (context_.failed()) return Value();
  if (callee.is_object()) {
    switch (callee.object()->kind) {
      case Object::Kind::kFunction:
        return static_cast<const Function*>(callee.object())->body(context_, arguments);
      case Object::Kind::kMethod:
        return CallMethod(context_, *static_cast<const Method*>(callee.object()), arguments);
      case Object::Kind::kMacro:
        return CallMacro(*static_cast<const Macro*>(callee.object()), arguments);
      case Object::Kind::kNamespace:
      case Object::Kind::kLoop:
        break;
    }
  }
  context_.Fail(callee.is_undefined() ? callee.undefined_reason()
                                      : fmt::format("a {} cannot be called", TypeName(callee)));
  return Value();
}

}  // namespace spillway::jinja
