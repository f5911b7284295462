// Text to token ids and back, from the vocabulary in a GGUF file (tokenizer.ggml.model): byte-level BPE
// ("gpt2") with the pre-tokenizers of a table (tokenizer.ggml.pre), SentencePiece BPE ("llama") and Gemma
// 4's; other models are named in an Unimplemented error.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/reader.h"

namespace spillway {

struct Vocabulary;  // engine/tokenizer/vocabulary.h

// Immutable; thread-safe.
class Tokenizer {
 public:
  // Unimplemented names an unknown tokenizer model or pre-tokenizer (never a silent default).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(Vocabulary vocabulary);
  ~Tokenizer();

  // No BOS or EOS is added. With `parse_special`, control tokens written in the text become their ids;
  // without it no text becomes one. User-defined tokens are always found, unless they end a turn. Near-linear
  // time in the text, whatever it is; invalid UTF-8 is tokenized as bytes.
  std::vector<int32_t> Encode(std::string_view text, bool parse_special) const;

  // Raw bytes of one token ("" for ids out of range; control tokens give their text only with `special`).
  std::string TokenBytes(int32_t token, bool special) const;
  // The same inside a text: without the space that Encode puts before a text, and before what follows a
  // special token, where the vocabulary asks for one. `previous`: the token before, nullopt at the start.
  std::string TokenBytesAfter(std::optional<int32_t> previous, int32_t token, bool special) const;
  std::string Decode(std::span<const int32_t> tokens, bool special) const;

  uint32_t n_vocab() const;
  bool IsControl(int32_t token) const;
  std::optional<int32_t> FindToken(std::string_view text) const;  // by its text in the vocabulary
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  bool add_bos() const;
  // Every id that ends a generation: eos, eot, eom, and the vocabulary's <|im_end|>, <|eot_id|>,
  // <|endoftext|>, … where they are control or user-defined tokens.
  const std::vector<int32_t>& stop_ids() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns a stream of tokens into text that never splits a UTF-8 character: bytes that may still become a
// character are held back; bytes that cannot are replaced by U+FFFD. Confined to one thread.
class StreamDecoder {
 public:
  // `previous`: the last token of the text that is continued, nullopt where a text begins.
  explicit StreamDecoder(const Tokenizer& tokenizer, std::optional<int32_t> previous = std::nullopt)
      : tokenizer_(tokenizer), previous_(previous) {}
  // Text that is complete now. A control token has none, but its own with `special`.
  std::string Add(int32_t token, bool special = false);
  std::string Finish();  // what was held back, replaced where incomplete

 private:
  const Tokenizer& tokenizer_;
  std::optional<int32_t> previous_;
  std::string pending_;
};

}  // namespace spillway
