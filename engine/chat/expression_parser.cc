// Recursive descent, one function a level of precedence.
#include "engine/chat/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/base/status.h"
#include "engine/chat/parser.h"

namespace spillway::jinja {
namespace {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kBlockEnd:
      return "%}";
    case TokenKind::kVariableEnd:
      return "}}";
    case TokenKind::kData:
    case TokenKind::kBlockBegin:
    case TokenKind::kVariableBegin:
      return "the next tag";
    case TokenKind::kString:
      return fmt::format("the string '{}'", token.text.substr(0, 40));
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

}  // namespace

ExpressionParser::Nest::Nest(ExpressionParser& parser) : parser_(parser) {
  if (++parser.depth_ > kMaxParseDepth)
    parser.Fail(fmt::format("nested deeper than {} levels", kMaxParseDepth));
}

const Token& ExpressionParser::Peek(size_t ahead) const {
  return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
}

void ExpressionParser::Fail(std::string_view message) {
  if (error_.ok()) error_ = InvalidArgument("chat template, line {}: {}", Peek().line, message);
  position_ = tokens_.size() - 1;
}

bool ExpressionParser::Accept(std::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

bool ExpressionParser::AcceptName(std::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

void ExpressionParser::Expect(std::string_view op) {
  if (!Accept(op)) Fail(fmt::format("expected '{}', found {}", op, Describe(Peek())));
}

void ExpressionParser::ExpectName(std::string_view name) {
  if (!AcceptName(name)) Fail(fmt::format("expected '{}', found {}", name, Describe(Peek())));
}

std::string ExpressionParser::TakeName(std::string_view what) {
  if (Peek().kind != TokenKind::kName) {
    Fail(fmt::format("expected {}, found {}", what, Describe(Peek())));
    return "";
  }
  std::string name = Peek().text;
  Next();
  return name;
}

ExpressionPtr ExpressionParser::Make(Kind kind, std::string text) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = Peek().line;
  node->text = std::move(text);
  return node;
}

void ExpressionParser::Deepen(Expression& parent, const Expression& child) {
  parent.depth = std::max(parent.depth, child.depth + 1);
  if (parent.depth > kMaxExpressionDepth) {
    Fail(fmt::format("an expression of more than {} levels", kMaxExpressionDepth));
  }
}

void ExpressionParser::Adopt(Expression& parent, ExpressionPtr child) {
  if (child != nullptr) Deepen(parent, *child);
  parent.children.push_back(std::move(child));
}

ExpressionPtr ExpressionParser::MakeCaptured() { return Make(Kind::kCaptured); }

ExpressionPtr ExpressionParser::ParseExpression() {
  const Nest nest(*this);
  ExpressionPtr node = ParseOr();
  while (AcceptName("if")) {
    ExpressionPtr conditional = Make(Kind::kConditional);
    Adopt(*conditional, std::move(node));
    Adopt(*conditional, ParseOr());
    Adopt(*conditional, AcceptName("else") ? ParseExpression() : nullptr);
    node = std::move(conditional);
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseWithoutConditional() {
  const Nest nest(*this);
  ExpressionPtr node = ParseOr();
  if (!AtOperator(",")) return node;
  ExpressionPtr tuple = Make(Kind::kTuple);
  Adopt(*tuple, std::move(node));
  while (Accept(",")) {
    if (AtExpressionEnd()) break;
    Adopt(*tuple, ParseOr());
  }
  return tuple;
}

bool ExpressionParser::AtExpressionEnd() const {
  const TokenKind kind = Peek().kind;
  return kind == TokenKind::kBlockEnd || kind == TokenKind::kVariableEnd || kind == TokenKind::kEnd ||
         AtOperator(")") || AtOperator("=") || AtName("if") || AtName("recursive");
}

ExpressionPtr ExpressionParser::ParseTuple() {
  ExpressionPtr node = ParseExpression();
  if (!AtOperator(",")) return node;
  ExpressionPtr tuple = Make(Kind::kTuple);
  Adopt(*tuple, std::move(node));
  while (Accept(",")) {
    if (AtExpressionEnd()) break;
    Adopt(*tuple, ParseExpression());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::ParseTarget() {
  const Nest nest(*this);
  ExpressionPtr tuple = Make(Kind::kTuple);
  bool is_tuple = false;
  do {
    if (AtName("in") || AtExpressionEnd()) break;
    if (Accept("(")) {
      Adopt(*tuple, ParseTarget());
      Expect(")");
    } else {
      ExpressionPtr name = Make(Kind::kName, Peek().text);
      TakeName("a name to assign to");
      if (Accept(".")) {
        ExpressionPtr attribute = Make(Kind::kAttribute, Peek().text);
        TakeName("an attribute");
        Adopt(*attribute, std::move(name));
        name = std::move(attribute);
      }
      Adopt(*tuple, std::move(name));
    }
    is_tuple = is_tuple || AtOperator(",");
  } while (Accept(","));
  if (tuple->children.empty()) Fail(fmt::format("expected a name to assign to, found {}", Describe(Peek())));
  if (is_tuple || failed()) return tuple;
  return std::move(tuple->children[0]);
}

ExpressionPtr ExpressionParser::ParseBinary(ExpressionPtr left, ExpressionPtr (ExpressionParser::*operand)(),
                                            std::initializer_list<std::string_view> operators) {
  for (;;) {
    const auto op =
        std::find_if(operators.begin(), operators.end(), [this](auto o) { return AtOperator(o); });
    if (op == operators.end()) return left;
    ExpressionPtr binary = Make(Kind::kBinary, std::string(*op));
    Next();
    Adopt(*binary, std::move(left));
    Adopt(*binary, (this->*operand)());
    left = std::move(binary);
  }
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  while (AtName("or")) {
    ExpressionPtr node = Make(Kind::kOr);
    Next();
    Adopt(*node, std::move(left));
    Adopt(*node, ParseAnd());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (AtName("and")) {
    ExpressionPtr node = Make(Kind::kAnd);
    Next();
    Adopt(*node, std::move(left));
    Adopt(*node, ParseNot());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  const Nest nest(*this);
  ExpressionPtr node = Make(Kind::kNot);
  Next();
  Adopt(*node, ParseNot());
  return node;
}

ExpressionPtr ExpressionParser::ParseCompare() {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<=", ">=", "<", ">"};
  ExpressionPtr first = ParseSum();
  ExpressionPtr node;
  for (;;) {
    std::string op;
    if (AtName("in")) {
      op = "in";
    } else if (AtName("not") && Peek(1).kind == TokenKind::kName && Peek(1).text == "in") {
      op = "not in";
      Next();
    } else {
      const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                      [this](auto o) { return AtOperator(o); });
      if (found != std::end(kOperators)) op = std::string(*found);
    }
    if (op.empty()) return node != nullptr ? std::move(node) : std::move(first);
    if (node == nullptr) {
      node = Make(Kind::kCompare);
      Adopt(*node, std::move(first));
    }
    Next();
    node->operators.push_back(std::move(op));
    Adopt(*node, ParseSum());
  }
}

ExpressionPtr ExpressionParser::ParseSum() {
  return ParseBinary(ParseConcat(), &ExpressionParser::ParseConcat, {"+", "-"});
}

ExpressionPtr ExpressionParser::ParseConcat() {
  ExpressionPtr first = ParseProduct();
  if (!AtOperator("~")) return first;
  ExpressionPtr node = Make(Kind::kConcat);
  Adopt(*node, std::move(first));
  while (Accept("~")) Adopt(*node, ParseProduct());
  return node;
}

ExpressionPtr ExpressionParser::ParseProduct() {
  return ParseBinary(ParsePower(), &ExpressionParser::ParsePower, {"*", "//", "/", "%"});
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr left = ParseUnary(true);
  while (AtOperator("**")) {
    ExpressionPtr node = Make(Kind::kBinary, "**");
    Next();
    Adopt(*node, std::move(left));
    Adopt(*node, ParseUnary(true));
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const Nest nest(*this);
    node = Make(AtOperator("-") ? Kind::kNegate : Kind::kPositive);
    Next();
    Adopt(*node, ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filters ? ParseFilters(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = Peek();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseNameOrLiteral();
    case TokenKind::kString: {
      ExpressionPtr node = Make(Kind::kLiteral);
      std::string text;
      for (; Peek().kind == TokenKind::kString; Next()) text += Peek().text;
      node->literal = Value(std::move(text));
      return node;
    }
    case TokenKind::kInteger: {
      ExpressionPtr node = Make(Kind::kLiteral);
      int64_t value = 0;
      const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (result.ec != std::errc()) Fail(fmt::format("{} is too large a number", token.text.substr(0, 40)));
      node->literal = Value(value);
      Next();
      return node;
    }
    case TokenKind::kFloat: {
      ExpressionPtr node = Make(Kind::kLiteral);
      double value = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      node->literal = Value(value);
      Next();
      return node;
    }
    default:
      if (AtOperator("(")) return ParseParentheses();
      if (AtOperator("[")) return ParseListLiteral();
      if (AtOperator("{")) return ParseDictLiteral();
      Fail(fmt::format("expected an expression, found {}", Describe(token)));
      return Make(Kind::kLiteral);
  }
}

ExpressionPtr ExpressionParser::ParseNameOrLiteral() {
  const std::string name = Peek().text;
  ExpressionPtr node = Make(Kind::kLiteral);
  if (name == "true" || name == "True") {
    node->literal = Value(true);
  } else if (name == "false" || name == "False") {
    node->literal = Value(false);
  } else if (name == "none" || name == "None") {
    node->literal = Value(None{});
  } else {
    node->kind = Kind::kName;
    node->text = name;
  }
  Next();
  return node;
}

ExpressionPtr ExpressionParser::ParseParentheses() {
  const Nest nest(*this);
  Expect("(");
  if (AtOperator(")")) {
    ExpressionPtr empty = Make(Kind::kTuple);
    Next();
    return empty;
  }
  ExpressionPtr node = ParseTuple();
  Expect(")");
  return node;
}

ExpressionPtr ExpressionParser::ParseListLiteral() {
  const Nest nest(*this);
  ExpressionPtr node = Make(Kind::kList);
  Expect("[");
  while (!AtOperator("]") && !failed()) {
    Adopt(*node, ParseExpression());
    if (!Accept(",")) break;
  }
  Expect("]");
  return node;
}

ExpressionPtr ExpressionParser::ParseDictLiteral() {
  const Nest nest(*this);
  ExpressionPtr node = Make(Kind::kDict);
  Expect("{");
  while (!AtOperator("}") && !failed()) {
    Adopt(*node, ParseExpression());
    Expect(":");
    Adopt(*node, ParseExpression());
    if (!Accept(",")) break;
  }
  Expect("}");
  return node;
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr node) {
  while (!failed()) {
    if (Accept(".")) {
      if (Peek().kind == TokenKind::kInteger) {  // x.0
        ExpressionPtr subscript = Make(Kind::kSubscript);
        Adopt(*subscript, std::move(node));
        Adopt(*subscript, ParsePrimary());
        node = std::move(subscript);
        continue;
      }
      ExpressionPtr attribute = Make(Kind::kAttribute, Peek().text);
      TakeName("an attribute");
      Adopt(*attribute, std::move(node));
      node = std::move(attribute);
    } else if (AtOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (AtOperator("(")) {
      ExpressionPtr call = Make(Kind::kCall);
      Adopt(*call, std::move(node));
      ParseArguments(*call);
      node = std::move(call);
    } else {
      break;
    }
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr node) {
  const Nest nest(*this);
  ExpressionPtr subscript = Make(Kind::kSubscript);
  Expect("[");
  Adopt(*subscript, std::move(node));
  Adopt(*subscript, AtOperator(":") ? nullptr : ParseTuple());
  while (subscript->children.size() < 4 && Accept(":")) {
    subscript->kind = Kind::kSlice;
    Adopt(*subscript, AtOperator(":") || AtOperator("]") ? nullptr : ParseExpression());
  }
  if (subscript->kind == Kind::kSlice) subscript->children.resize(4);
  Expect("]");
  return subscript;
}

void ExpressionParser::ParseArguments(Expression& call) {
  const Nest nest(*this);
  Expect("(");
  while (!AtOperator(")") && !failed()) {
    if (AtOperator("*") || AtOperator("**")) return Fail("* and ** in calls are not supported");
    if (Peek().kind == TokenKind::kName && Peek(1).kind == TokenKind::kOperator && Peek(1).text == "=") {
      std::string name = Peek().text;
      Next();
      Next();
      ExpressionPtr value = ParseExpression();
      Deepen(call, *value);
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty()) return Fail("a positional argument follows a named one");
      Adopt(call, ParseExpression());
    }
    if (!Accept(",")) break;
  }
  Expect(")");
}

ExpressionPtr ExpressionParser::ParseOneFilter(ExpressionPtr node) {
  ExpressionPtr filter = Make(Kind::kFilter, Peek().text);
  TakeName("a filter");
  Adopt(*filter, std::move(node));
  if (AtOperator("(")) ParseArguments(*filter);
  return filter;
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr node) {
  while (!failed()) {
    if (Accept("|")) {
      node = ParseOneFilter(std::move(node));
    } else if (AtName("is")) {
      node = ParseTest(std::move(node));
    } else if (AtOperator("(") && node->kind == Kind::kFilter) {
      ExpressionPtr call = Make(Kind::kCall);
      Adopt(*call, std::move(node));
      ParseArguments(*call);
      node = std::move(call);
    } else {
      break;
    }
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseFilterNames(ExpressionPtr node) {
  node = ParseOneFilter(std::move(node));
  while (Accept("|")) node = ParseOneFilter(std::move(node));
  return node;
}

// "x is [not] name", "x is name(a)", "x is name a"
ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr node) {
  ExpectName("is");
  const bool negated = AcceptName("not");
  ExpressionPtr test = Make(Kind::kTest, Peek().text);
  TakeName("a test");
  Adopt(*test, std::move(node));
  const TokenKind kind = Peek().kind;
  const bool keyword = AtName("else") || AtName("or") || AtName("and") || AtName("is") || AtName("if") ||
                       AtName("not") || AtName("in");
  if (AtOperator("(")) {
    ParseArguments(*test);
  } else if (!keyword &&
             (kind == TokenKind::kName || kind == TokenKind::kString || kind == TokenKind::kInteger ||
              kind == TokenKind::kFloat || AtOperator("[") || AtOperator("{"))) {
    Adopt(*test, ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  ExpressionPtr inverse = Make(Kind::kNot);
  Adopt(*inverse, std::move(test));
  return inverse;
}

}  // namespace spillway::jinja
