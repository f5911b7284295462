// Regular expressions as JSON Schema's `pattern` has them (ECMA 262), the part that is a regular language:
// literals, classes, \d \w \s, groups, alternation, counted and starred repeats, anchors at both ends. Back
// references, look-around and \b are refused by name.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "engine/grammar/dfa.h"

namespace spillway::grammar {

enum class RegexText {
  kPlain,       // the language itself, in UTF-8
  kJsonString,  // its members as the inside of a JSON string: quotes, backslashes and controls escaped
};

// Searches unless anchored, as `pattern` does. Where engines differ (\d and \w beyond ASCII) the result is
// what all of them accept. InvalidArgument names what is not supported, ResourceExhausted the limit.
absl::StatusOr<Dfa> CompileRegex(std::string_view pattern, RegexText text);

}  // namespace spillway::grammar
