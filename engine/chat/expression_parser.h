// The expressions half of the parser, and the token cursor both halves share. After an error the cursor
// stands at the end and stays there, so every loop ends by itself.
#pragma once

#include <absl/status/status.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/ast.h"
#include "engine/chat/lexer.h"

namespace spillway::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ExpressionPtr ParseExpression();                      // with "a if b else c"
  ExpressionPtr ParseWithoutConditional();              // "x" of "for y in x if z"
  ExpressionPtr ParseTuple();                           // "a, b" without parentheses, or one expression
  ExpressionPtr ParseTarget();                          // what for and set assign to
  ExpressionPtr ParseFilters(ExpressionPtr input);      // "|a|b(c)"
  ExpressionPtr ParseFilterNames(ExpressionPtr input);  // "a|b(c)", after {% filter
  ExpressionPtr MakeCaptured();

  const Token& Peek(size_t ahead = 0) const;
  void Next() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool AtOperator(std::string_view op) const {
    return Peek().kind == TokenKind::kOperator && Peek().text == op;
  }
  bool AtName(std::string_view name) const { return Peek().kind == TokenKind::kName && Peek().text == name; }
  bool Accept(std::string_view op);
  bool AcceptName(std::string_view name);
  void Expect(std::string_view op);
  void ExpectName(std::string_view name);
  std::string TakeName(std::string_view what);

  void Fail(std::string_view message);
  bool failed() const { return !error_.ok(); }
  const absl::Status& error() const { return error_; }

  // Counts nesting while it lives.
  class Nest {
   public:
    explicit Nest(ExpressionParser& parser);
    ~Nest() { --parser_.depth_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  using Kind = Expression::Kind;

  ExpressionPtr Make(Kind kind, std::string text = "") const;
  void Deepen(Expression& parent, const Expression& child);
  void Adopt(Expression& parent, ExpressionPtr child);  // null stands for an absent operand
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseNameOrLiteral();
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseListLiteral();
  ExpressionPtr ParseDictLiteral();
  ExpressionPtr ParsePostfix(ExpressionPtr node);
  ExpressionPtr ParseSubscript(ExpressionPtr node);
  ExpressionPtr ParseOneFilter(ExpressionPtr node);
  ExpressionPtr ParseTest(ExpressionPtr node);
  ExpressionPtr ParseBinary(ExpressionPtr left, ExpressionPtr (ExpressionParser::*operand)(),
                            std::initializer_list<std::string_view> operators);
  void ParseArguments(Expression& call);
  bool AtExpressionEnd() const;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  absl::Status error_;
};

}  // namespace spillway::jinja
