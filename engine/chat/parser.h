// Tokens to statements: the grammar of Jinja as published templates use it. Nesting is limited, so that no
// template can exhaust the stack of whoever parses, renders or frees it.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "engine/chat/ast.h"

namespace spillway::jinja {

inline constexpr int kMaxParseDepth = 100;       // blocks in blocks, parentheses in parentheses
inline constexpr int kMaxExpressionDepth = 250;  // also long chains: a + b + c …

// InvalidArgument with line and reason.
absl::StatusOr<Block> Parse(std::string_view source);

}  // namespace spillway::jinja
