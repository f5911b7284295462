// A byte-level vocabulary small enough to reason about: 256 byte tokens, then whatever a test adds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/vocabulary.h"

namespace spillway::testing {

inline Vocabulary ByteVocabulary(std::string pre = "gpt-2") {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = std::move(pre);
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(alphabet.Character(static_cast<uint8_t>(byte)));
    vocabulary.types.push_back(TokenType::kNormal);
  }
  return vocabulary;
}

// Returns the new token's id.
inline int32_t AddToken(Vocabulary& vocabulary, std::string text, TokenType type = TokenType::kNormal) {
  vocabulary.tokens.push_back(std::move(text));
  vocabulary.types.push_back(type);
  return static_cast<int32_t>(vocabulary.tokens.size() - 1);
}

// Adds the merge and its token.
inline int32_t AddMerge(Vocabulary& vocabulary, const std::string& left, const std::string& right) {
  vocabulary.merges.push_back(left + " " + right);
  return AddToken(vocabulary, left + right);
}

}  // namespace spillway::testing
