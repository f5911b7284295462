// A template's source as tokens, white space controlled as transformers sets Jinja up: trim_blocks (the
// newline after a block or comment goes), lstrip_blocks (blanks before one at the start of a line go), "-"
// and "+" marks, one final newline dropped. Knows no grammar.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::jinja {

enum class TokenKind {
  kData,           // text outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,  // without quotes, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;
};

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

// InvalidArgument with the line. The last token is kEnd.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace spillway::jinja
