// Byte-pair merging of one word: the pair of lowest rank first, leftmost among equals (Sennrich et al. 2016),
// over bytes as in GPT-2 or over characters as in SentencePiece (Kudo and Richardson 2018). O(n log n) in the
// word's length. Knows neither words' borders nor special tokens.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/vocabulary.h"

namespace spillway {

struct BytePairOptions {
  // Vocabulary and merges spell bytes in it; nullptr: they are UTF-8 as it is, and a word starts out as its
  // characters.
  const ByteAlphabet* alphabet = nullptr;
  // Two neighbours merge where their text is a token, the highest score first (SentencePiece); otherwise
  // `merges` says what merges in which order.
  bool by_score = false;
};

// Immutable; thread-safe. Scratch memory is the caller's.
class BytePairMerger {
 public:
  struct Scratch;  // reused from word to word, confined to one call chain
  struct FreeScratch {
    void operator()(Scratch* scratch) const;
  };

  // `ids`: token text to id for every token that plain text may become.
  // InvalidArgument names a merge that is not two symbols and a token too long to be merged.
  static absl::StatusOr<std::unique_ptr<BytePairMerger>> Build(
      const Vocabulary& vocabulary, const absl::flat_hash_map<std::string_view, int32_t>& ids,
      const BytePairOptions& options);

  static std::unique_ptr<Scratch, FreeScratch> MakeScratch();

  // Appends the tokens of a word given as raw bytes. What merges into no token is spelt in byte tokens; a
  // byte without a token becomes the unknown token (over characters: a run of them one), or nothing where
  // the vocabulary has none or, over bytes, where it is a control token.
  void Encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;

 private:
  class SymbolTable;
  struct Merge {
    uint32_t rank = 0;
    int32_t symbol = 0;  // of the merged text
  };

  BytePairMerger() = default;
  static uint64_t Pair(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  absl::Status AddListedMerges(const Vocabulary& vocabulary, SymbolTable& symbols);
  absl::Status AddScoredMerges(const Vocabulary& vocabulary, SymbolTable& symbols);
  void SpellBytes(const ByteAlphabet& alphabet, SymbolTable& symbols);
  void SetByteTokens(const Vocabulary& vocabulary, const absl::flat_hash_map<std::string_view, int32_t>& ids);

  void EncodeBounded(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void SplitIntoSymbols(std::string_view word, Scratch& scratch) const;
  void MergeSymbols(Scratch& scratch) const;
  void Offer(uint32_t left, Scratch& scratch) const;
  void AppendTokens(std::string_view word, const Scratch& scratch, std::vector<int32_t>& out) const;

  // A symbol is a token id, or from n_tokens_ on a text that only occurs inside merges.
  int32_t n_tokens_ = 0;
  absl::flat_hash_map<uint64_t, Merge> merges_;
  bool over_bytes_ = true;
  std::array<int32_t, 256> byte_symbols_ = {};                // over bytes
  absl::flat_hash_map<uint32_t, int32_t> character_symbols_;  // over characters, by code point
  std::array<int32_t, 256> byte_tokens_ = {};                 // -1: none
  int32_t unknown_ = -1;                                      // -1: none
};

}  // namespace spillway
