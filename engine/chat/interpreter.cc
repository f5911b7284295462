// Statements: what they write, which names they make, how loops and macros run.
#include "engine/chat/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/chat/builtins.h"
#include "engine/chat/value_text.h"

namespace spillway::jinja {

// A scope inside another for as long as it lives.
class Interpreter::Enter {
 public:
  Enter(Interpreter& interpreter, std::shared_ptr<Scope> outer)
      : interpreter_(interpreter), saved_(std::move(interpreter.scope_)) {
    interpreter_.scope_ = std::make_shared<Scope>();
    interpreter_.scope_->outer = std::move(outer);
  }
  explicit Enter(Interpreter& interpreter) : Enter(interpreter, interpreter.scope_) {}
  ~Enter() { interpreter_.scope_ = std::move(saved_); }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> saved_;
};

Interpreter::Interpreter(Context& context, std::shared_ptr<Scope> globals) : context_(context) {
  root_ = std::make_shared<Scope>();
  root_->outer = std::move(globals);
  scope_ = root_;
}

// Namespaces may hold each other; emptied, they are freed one by one.
Interpreter::~Interpreter() {
  for (const auto& made : context_.namespaces) {
    const auto attributes = std::exchange(made->attributes, {});
  }
}

std::string Interpreter::Run(const Block& block) {
  std::string out;
  out_ = &out;
  Execute(block);
  out_ = nullptr;
  return out;
}

void Interpreter::Write(const std::string& text) {
  if (context_.failed()) return;
  written_ += text.size();
  if (written_ > kMaxOutputBytes) {
    context_.Fail(fmt::format("the template writes more than {} bytes", kMaxOutputBytes));
  }
  if (context_.ChargeBytes(text.size())) *out_ += text;
}

std::string Interpreter::Capture(const Block& block) {
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  Execute(block);
  out_ = out;
  return text;
}

Interpreter::Flow Interpreter::Execute(const Block& block) {
  if (depth_ >= kMaxEvaluationDepth) context_.Fail("macros or blocks nest too deep");
  ++depth_;
  Flow flow = Flow::kNormal;
  for (size_t i = 0; i < block.size() && flow == Flow::kNormal && !context_.failed(); ++i)
    flow = Execute(*block[i]);
  --depth_;
  return flow;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement) {
  context_.line = statement.line;
  if (!context_.Charge(1)) return Flow::kNormal;
  using Kind = Statement::Kind;
  switch (statement.kind) {
    case Kind::kData:
      Write(statement.text);
      break;
    case Kind::kOutput:
      Write(ToText(context_, Evaluate(*statement.value)));
      break;
    case Kind::kIf:
      return ExecuteIf(statement);
    case Kind::kFor:
      return ExecuteFor(statement);
    case Kind::kSet:
      Assign(*statement.target, Evaluate(*statement.value));
      break;
    case Kind::kSetBlock:
    case Kind::kFilterBlock: {
      Value text;
      {
        const Enter scope(*this);
        text = MakeString(context_, Capture(statement.body));
      }
      const Value outer = std::exchange(captured_, text);
      if (statement.value != nullptr) text = Evaluate(*statement.value);
      captured_ = outer;
      if (statement.kind == Kind::kSetBlock) {
        Assign(*statement.target, text);
      } else {
        Write(ToText(context_, text));
      }
      break;
    }
    case Kind::kMacro:
      ExecuteMacro(statement);
      break;
    case Kind::kCallBlock:
      ExecuteCallBlock(statement);
      break;
    case Kind::kWith:
      return ExecuteWith(statement);
    case Kind::kScope: {
      const Enter scope(*this);
      return Execute(statement.body);
    }
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition == nullptr || IsTrue(Evaluate(*branch.condition))) return Execute(branch.body);
    if (context_.failed()) break;
  }
  return Flow::kNormal;
}

std::shared_ptr<const List> Interpreter::LoopItems(const Statement& statement) {
  std::shared_ptr<const List> all = ToIterable(context_, Evaluate(*statement.value));
  if (all == nullptr || statement.condition == nullptr) return all;
  std::vector<Value> kept;
  for (const Value& item : all->items) {
    const Enter scope(*this);
    Assign(*statement.target, item);
    if (IsTrue(Evaluate(*statement.condition))) kept.push_back(item);
    if (context_.failed()) return nullptr;
  }
  const Value list = MakeList(context_, std::move(kept));
  return list.is_list() ? list.shared_list() : nullptr;
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  const std::shared_ptr<const List> items = LoopItems(statement);
  if (items == nullptr || context_.failed()) return Flow::kNormal;
  // Jinja's rule for else: no turn reached the end of its body, be it that there was none or that every one
  // broke off.
  bool completed = false;
  const auto loop = std::make_shared<Loop>();
  loop->items = items;
  loop->depth = items->depth + 1;
  for (; loop->index < items->items.size() && context_.Charge(4); ++loop->index) {
    const Enter scope(*this);
    scope_->names["loop"] = Value(std::shared_ptr<Object>(loop));
    Assign(*statement.target, items->items[loop->index]);
    const Flow flow = Execute(statement.body);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (completed || statement.else_body.empty()) return Flow::kNormal;
  const Enter scope(*this);
  return Execute(statement.else_body);
}

Interpreter::Flow Interpreter::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& assignment : statement.assignments) values.push_back(Evaluate(*assignment.second));
  const Enter scope(*this);
  for (size_t i = 0; i < values.size(); ++i) Assign(*statement.assignments[i].first, values[i]);
  return Execute(statement.body);
}

void Interpreter::ExecuteMacro(const Statement& statement) {
  const auto macro = std::make_shared<Macro>();
  macro->definition = &statement;
  macro->scope = scope_;
  scope_->names[statement.text] = Value(std::shared_ptr<Object>(macro));
}

void Interpreter::ExecuteCallBlock(const Statement& statement) {
  const Expression& call = *statement.value;
  const Value callee = Evaluate(*call.children[0]);
  Arguments arguments = EvaluateArguments(call);
  const auto caller = std::make_shared<Macro>();
  caller->definition = &statement;
  caller->scope = scope_;
  arguments.named.emplace_back("caller", Value(std::shared_ptr<Object>(caller)));
  Write(ToText(context_, Call(callee, arguments)));
}

void Interpreter::Assign(const Expression& target, const Value& value) {
  if (context_.failed()) return;
  if (target.kind == Expression::Kind::kName) {
    scope_->names[target.text] = value;
  } else if (target.kind == Expression::Kind::kAttribute) {
    const Value object = Lookup(target.children[0]->text);
    if (!object.is_object() || object.object()->kind != Object::Kind::kNamespace) {
      context_.Fail(
          fmt::format("'{}' is no namespace: its '{}' cannot be set", target.children[0]->text, target.text));
      return;
    }
    static_cast<Namespace*>(object.object())->attributes[target.text] = value;
  } else {
    const auto items = ToIterable(context_, value);
    if (items == nullptr) return;
    if (items->items.size() != target.children.size()) {
      context_.Fail(fmt::format("{} values for {} names", items->items.size(), target.children.size()));
      return;
    }
    for (size_t i = 0; i < items->items.size(); ++i) Assign(*target.children[i], items->items[i]);
  }
}

Value Interpreter::CallMacro(const Macro& macro, const Arguments& arguments) {
  const Statement& definition = *macro.definition;
  std::shared_ptr<Scope> outer = macro.scope.lock();
  const Enter scope(*this, outer != nullptr ? std::move(outer) : root_);
  const auto& parameters = definition.parameters;
  if (arguments.positional.size() > parameters.size()) {
    context_.Fail(fmt::format("{} takes at most {} arguments, not {}", definition.text, parameters.size(),
                              arguments.positional.size()));
    return Value();
  }
  for (const auto& [name, value] : arguments.named) {
    const bool known =
        name == "caller" || std::any_of(parameters.begin(), parameters.end(),
                                        [&name = name](const Parameter& p) { return p.name == name; });
    if (!known) {
      context_.Fail(fmt::format("{} has no parameter '{}'", definition.text, name));
      return Value();
    }
    scope_->names[name] = value;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < arguments.positional.size()) {
      scope_->names[parameters[i].name] = arguments.positional[i];
    } else if (!scope_->names.contains(parameters[i].name)) {
      Value value =
          parameters[i].fallback == nullptr
              ? Value::MakeUndefined(fmt::format("parameter '{}' was not provided", parameters[i].name))
              : Evaluate(*parameters[i].fallback);
      scope_->names[parameters[i].name] = std::move(value);
    }
  }
  return MakeString(context_, Capture(definition.body));
}

}  // namespace spillway::jinja
