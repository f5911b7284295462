// Random answers under a constraint, over a small vocabulary of bytes and of longer tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/grammar/constraint.h"

namespace spillway::test {

// All bytes, some common longer pieces, and a last token that ends an answer.
std::shared_ptr<const grammar::TokenTrie> SmallVocabulary();

struct Sample {
  std::string text;
  bool ended = false;  // by the end token, not by the step limit
  std::string error;   // a promise that was broken, or a limit passed
};
// Draws allowed tokens until the end. What closes and ends is preferred more and more, so that most end.
Sample DrawSample(const std::shared_ptr<grammar::Constraint>& constraint,
                  const grammar::TokenTrie& vocabulary, uint32_t seed, int max_tokens);

}  // namespace spillway::test
