// What the parser makes of a template. Plain data; every node knows its line and, for expressions, how deep
// it nests, which the parser limits so that nothing that walks or frees a tree can overflow the stack.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/chat/value.h"

namespace spillway::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Expression {
  enum class Kind {
    kLiteral,      // literal
    kName,         // text
    kCaptured,     // the text a filter block or a filtered set block collected
    kList,         // children
    kTuple,        // children
    kDict,         // children: key, value, key, value …
    kAttribute,    // children[0].text
    kSubscript,    // children[0][children[1]]
    kSlice,        // children[0][children[1]:children[2]:children[3]], any of the three may be null
    kCall,         // children[0](children[1…], named)
    kFilter,       // children[0]|text(children[1…], named)
    kTest,         // children[0] is text(children[1…], named)
    kNot,          // children[0]
    kNegate,       // children[0]
    kPositive,     // children[0]
    kBinary,       // children[0] text children[1]
    kConcat,       // children ~ …
    kCompare,      // children[0] operators[0] children[1] operators[1] children[2] …
    kAnd,          // children[0], children[1]
    kOr,           // children[0], children[1]
    kConditional,  // children[0] if children[1] else children[2], which may be null
  };
  Kind kind = Kind::kLiteral;
  int line = 1;
  int depth = 1;
  std::string text;
  Value literal;
  std::vector<ExpressionPtr> children;
  std::vector<std::string> operators;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: none
};

struct Branch {
  ExpressionPtr condition;  // null: else
  Block body;
};

struct Statement {
  enum class Kind {
    kData,         // text
    kOutput,       // value
    kIf,           // branches
    kFor,          // target in value if condition: body, else_body
    kSet,          // target = value
    kSetBlock,     // target = body, through the filters of value (null: none)
    kFilterBlock,  // body through the filters of value
    kMacro,        // text(parameters): body
    kCallBlock,    // value is a call; body with parameters is its caller()
    kWith,         // assignments, body
    kScope,        // body (the generation blocks of training templates)
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kData;
  int line = 1;
  std::string text;
  ExpressionPtr target;
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<Parameter> parameters;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments;
  std::vector<Branch> branches;
  Block body;
  Block else_body;
};

// Another kind of Object, here because it points into the tree.
struct Macro : Object {
  Macro() : Object(Kind::kMacro) {}
  const Statement* definition = nullptr;
  std::weak_ptr<struct Scope> scope;  // where it was defined; weak, for that scope holds the macro
};

}  // namespace spillway::jinja
