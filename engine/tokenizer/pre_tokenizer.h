// Splits text into the words that merges stay within. One table names every supported
// `tokenizer.ggml.pre` with its published patterns; a new one is a row. Knows no vocabulary and no merges.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// Words that are tokens as a whole, whatever the merges say.
enum class WholeWords { kNone, kLineEnds, kAll };

struct PreTokenizerSpec {
  std::string_view name;
  // Applied one after another, each to the pieces the one before left: matches and the gaps between them are
  // pieces.
  std::span<const std::string_view> patterns;
  WholeWords whole_words = WholeWords::kNone;
  bool add_bos = false;           // where the file does not say
  bool add_space_prefix = false;  // where the file does not say
  // The vocabulary is UTF-8 with ▁ for a space, not bytes in the alphabet of byte-level BPE.
  bool characters = false;
};

// SentencePiece takes a text as one word.
inline constexpr PreTokenizerSpec kSentencePieceSpec = {
    .name = "sentencepiece", .patterns = {}, .add_bos = true, .add_space_prefix = true, .characters = true};

// nullptr when unknown.
const PreTokenizerSpec* FindPreTokenizer(std::string_view name);
std::string SupportedPreTokenizers();  // "a, b, c", for messages

// Immutable; thread-safe.
class PreTokenizer {
 public:
  // Internal when a pattern does not compile.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Compile(const PreTokenizerSpec& spec);
  ~PreTokenizer();

  // Pieces in order; together they are `text`, byte for byte. A run of bytes that is not UTF-8 is one piece.
  std::vector<std::string_view> Split(std::string_view text) const;

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
