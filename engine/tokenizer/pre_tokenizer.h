// Splits text into the words that byte-level BPE merges within. One table names every supported
// `tokenizer.ggml.pre` with its published patterns; a new one is a row. Knows no vocabulary and no merges.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct PreTokenizerSpec {
  std::string_view name;
  // Applied one after another, each to the pieces the one before left: matches and the gaps between them are
  // pieces.
  std::span<const std::string_view> patterns;
  bool ignore_merges = false;  // a word that is a token as a whole is that token, whatever the merges say
  bool add_bos = false;        // where the file does not say
};

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
