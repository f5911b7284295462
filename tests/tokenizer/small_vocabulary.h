// Vocabularies small enough to reason about: byte-level or SentencePiece, 256 byte tokens, then whatever a
// test adds.
#pragma once

#include <fmt/format.h>

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

inline constexpr int32_t kFirstPieceByte = 3;  // of SentencePieceVocabulary: the token of byte 0

// <unk>, <s>, </s> and the byte tokens.
inline Vocabulary SentencePieceVocabulary() {
  Vocabulary vocabulary;
  vocabulary.model = kSentencePieceModel;
  AddToken(vocabulary, "<unk>", TokenType::kUnknown);
  AddToken(vocabulary, "<s>", TokenType::kControl);
  AddToken(vocabulary, "</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(vocabulary, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.scores.resize(vocabulary.tokens.size());
  return vocabulary;
}

inline int32_t AddPiece(Vocabulary& vocabulary, std::string text, float score,
                        TokenType type = TokenType::kNormal) {
  vocabulary.scores.push_back(score);
  return AddToken(vocabulary, std::move(text), type);
}

}  // namespace spillway::testing
