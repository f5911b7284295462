// The statements half of the parser.
#include "engine/chat/parser.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/chat/expression_parser.h"

namespace spillway::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)) {}

  absl::StatusOr<Block> Run() {
    Block block = ParseBlock({});
    if (in_.failed()) return in_.error();
    return block;
  }

 private:
  using Kind = Statement::Kind;
  using Names = std::initializer_list<std::string_view>;

  static std::unique_ptr<Statement> Make(Kind kind, int line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  // Up to a tag whose name is among `ends`, which is then the next token; up to the end of the template for
  // none.
  Block ParseBlock(Names ends) {
    const ExpressionParser::Nest nest(in_);
    const int opened = in_.Peek().line;
    Block block;
    while (!in_.failed()) {
      const Token& token = in_.Peek();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0)
          in_.Fail(fmt::format("the block of line {} is not closed with {}", opened, *(ends.end() - 1)));
        return block;
      }
      if (token.kind == TokenKind::kData) {
        block.push_back(Make(Kind::kData, token.line));
        block.back()->text = token.text;
        in_.Next();
      } else if (token.kind == TokenKind::kVariableBegin) {
        block.push_back(Make(Kind::kOutput, token.line));
        in_.Next();
        block.back()->value = in_.ParseTuple();
        ExpectEnd(TokenKind::kVariableEnd, "}}");
      } else {
        in_.Next();
        const std::string name = in_.Peek().text;
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) return block;
        ParseStatement(block);
      }
    }
    return block;
  }

  void ExpectEnd(TokenKind kind, std::string_view text) {
    if (in_.Peek().kind == kind) return in_.Next();
    if (!in_.failed()) in_.Fail(fmt::format("expected {}, found '{}'", text, in_.Peek().text.substr(0, 40)));
  }
  void EndTag() { ExpectEnd(TokenKind::kBlockEnd, "%}"); }

  Block ParseBody(std::string_view end) {
    EndTag();
    Block body = ParseBlock({end});
    in_.ExpectName(end);
    return body;
  }

  // A macro's body: break and continue do not reach the loops around it.
  Block ParseCallableBody(std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    Block body = ParseBody(end);
    loop_depth_ = loops;
    return body;
  }

  void ParseStatement(Block& block) {
    const int line = in_.Peek().line;
    const std::string name = in_.TakeName("a statement");
    std::unique_ptr<Statement> statement;
    if (name == "if") {
      statement = ParseIf(line);
    } else if (name == "for") {
      statement = ParseFor(line);
    } else if (name == "set") {
      statement = ParseSet(line);
    } else if (name == "macro") {
      statement = Make(Kind::kMacro, line);
      statement->text = in_.TakeName("the macro's name");
      ParseParameters(*statement);
      statement->body = ParseCallableBody("endmacro");
    } else if (name == "call") {
      statement = ParseCallBlock(line);
    } else if (name == "filter") {
      statement = Make(Kind::kFilterBlock, line);
      statement->value = in_.ParseFilterNames(in_.MakeCaptured());
      statement->body = ParseBody("endfilter");
    } else if (name == "with") {
      statement = ParseWith(line);
    } else if (name == "generation") {  // marks what is trained on; nothing when rendering
      statement = Make(Kind::kScope, line);
      statement->body = ParseBody("endgeneration");
    } else if (name == "break" || name == "continue") {
      statement = Make(name == "break" ? Kind::kBreak : Kind::kContinue, line);
      if (loop_depth_ == 0) in_.Fail(fmt::format("{} outside of a loop", name));
    } else {
      in_.Fail(fmt::format("unknown statement '{}'", name.substr(0, 40)));
      return;
    }
    EndTag();
    block.push_back(std::move(statement));
  }

  std::unique_ptr<Statement> ParseIf(int line) {
    auto statement = Make(Kind::kIf, line);
    bool more = true;
    while (more && !in_.failed()) {
      Branch branch;
      branch.condition = in_.ParseTuple();
      EndTag();
      branch.body = ParseBlock({"elif", "else", "endif"});
      statement->branches.push_back(std::move(branch));
      more = in_.AcceptName("elif");
    }
    if (in_.AcceptName("else")) {
      Branch otherwise;
      otherwise.body = ParseBody("endif");
      statement->branches.push_back(std::move(otherwise));
    } else {
      in_.ExpectName("endif");
    }
    return statement;
  }

  std::unique_ptr<Statement> ParseFor(int line) {
    auto statement = Make(Kind::kFor, line);
    statement->target = in_.ParseTarget();
    in_.ExpectName("in");
    statement->value = in_.ParseWithoutConditional();
    if (in_.AcceptName("if")) statement->condition = in_.ParseExpression();
    if (in_.AtName("recursive")) in_.Fail("recursive loops are not supported");
    EndTag();
    ++loop_depth_;
    statement->body = ParseBlock({"else", "endfor"});
    --loop_depth_;
    if (in_.AcceptName("else")) {
      statement->else_body = ParseBody("endfor");
    } else {
      in_.ExpectName("endfor");
    }
    return statement;
  }

  std::unique_ptr<Statement> ParseSet(int line) {
    auto statement = Make(Kind::kSet, line);
    statement->target = in_.ParseTarget();
    if (in_.Accept("=")) {
      statement->value = in_.ParseTuple();
      return statement;
    }
    statement->kind = Kind::kSetBlock;
    if (in_.AtOperator("|")) statement->value = in_.ParseFilters(in_.MakeCaptured());
    statement->body = ParseBody("endset");
    return statement;
  }

  std::unique_ptr<Statement> ParseCallBlock(int line) {
    auto statement = Make(Kind::kCallBlock, line);
    statement->text = "caller";
    if (in_.AtOperator("(")) ParseParameters(*statement);
    statement->value = in_.ParseExpression();
    if (!in_.failed() && statement->value->kind != Expression::Kind::kCall) in_.Fail("call needs a call");
    statement->body = ParseCallableBody("endcall");
    return statement;
  }

  std::unique_ptr<Statement> ParseWith(int line) {
    auto statement = Make(Kind::kWith, line);
    while (in_.Peek().kind == TokenKind::kName) {
      ExpressionPtr target = in_.ParseTarget();
      in_.Expect("=");
      statement->assignments.emplace_back(std::move(target), in_.ParseExpression());
      if (!in_.Accept(",")) break;
    }
    statement->body = ParseBody("endwith");
    return statement;
  }

  void ParseParameters(Statement& macro) {
    in_.Expect("(");
    while (!in_.AtOperator(")") && !in_.failed()) {
      Parameter parameter;
      parameter.name = in_.TakeName("a parameter");
      if (in_.Accept("=")) {
        parameter.fallback = in_.ParseExpression();
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
        in_.Fail(fmt::format("parameter {} needs a default like the one before it", parameter.name));
      }
      macro.parameters.push_back(std::move(parameter));
      if (!in_.Accept(",")) break;
    }
    in_.Expect(")");
  }

  ExpressionParser in_;
  int loop_depth_ = 0;
};

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  SPILLWAY_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace spillway::jinja
