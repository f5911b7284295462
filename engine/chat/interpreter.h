// Runs a parsed template. One object renders once, on one thread.
#pragma once

#include <memory>
#include <string>

#include "engine/chat/ast.h"
#include "engine/chat/context.h"

namespace spillway::jinja {

// Names of one level: the input, the template, a loop's turn, a macro's call. Inner ones hide outer ones.
struct Scope {
  absl::flat_hash_map<std::string, Value> names;
  std::shared_ptr<Scope> outer;
};

class Interpreter {
 public:
  Interpreter(Context& context, std::shared_ptr<Scope> globals);
  ~Interpreter();

  // Errors are the context's.
  std::string Run(const Block& block);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class Enter;

  Flow Execute(const Block& block);
  Flow Execute(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  Flow ExecuteWith(const Statement& statement);
  void ExecuteMacro(const Statement& statement);
  void ExecuteCallBlock(const Statement& statement);
  void Write(const std::string& text);
  std::string Capture(const Block& block);
  void Assign(const Expression& target, const Value& value);

  Value Evaluate(const Expression& expression);
  Value EvaluateNode(const Expression& expression);
  Value EvaluateOptional(const ExpressionPtr& expression) {
    return expression == nullptr ? Value() : Evaluate(*expression);
  }
  Value EvaluateList(const Expression& expression);
  Value EvaluateDict(const Expression& expression);
  Value EvaluateConcat(const Expression& expression);
  Value EvaluateCompare(const Expression& expression);
  Value EvaluateConditional(const Expression& expression);
  Value Lookup(const std::string& name) const;
  Arguments EvaluateArguments(const Expression& call);
  Value Call(const Value& callee, const Arguments& arguments);
  Value CallMacro(const Macro& macro, const Arguments& arguments);
  std::shared_ptr<const List> LoopItems(const Statement& statement);

  Context& context_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  size_t written_ = 0;
  int depth_ = 0;
  Value captured_;
};

}  // namespace spillway::jinja
