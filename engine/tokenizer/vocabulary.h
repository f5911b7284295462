// The vocabulary of a model as a plain struct, read from a GGUF file's metadata and checked. It knows nothing
// of how text is split or merged; tests build small ones by hand.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/reader.h"

namespace spillway {

// tokenizer.ggml.token_type
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Vocabulary {
  std::string model;  // tokenizer.ggml.model
  std::string pre;    // tokenizer.ggml.pre, empty when absent
  // As written in the file: byte-level BPE keeps bytes as printable characters, SentencePiece a space as ▁.
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // as many as tokens
  std::vector<std::string> merges;  // "left right", best first
  std::vector<float> scores;        // as many as tokens where the model is "llama"
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> eot;
  std::optional<int32_t> eom;
  std::optional<int32_t> unknown;
  std::optional<bool> add_bos;
  std::optional<bool> add_space_prefix;
  // Phi-3: white space after an added token belongs to it. GGUF does not say so; the file is known by its
  // architecture or name.
  bool strip_after_added_tokens = false;
};

// Models of tokenizer.ggml.model that this engine reads.
inline constexpr std::string_view kByteLevelModel = "gpt2";
inline constexpr std::string_view kSentencePieceModel = "llama";
inline constexpr std::string_view kGemma4Model = "gemma4";  // merges over characters, ▁ for a space

// Bounds of a vocabulary this engine accepts; real ones reach 262144 tokens and some hundred bytes.
inline constexpr size_t kMaxTokens = size_t{1} << 24;
inline constexpr size_t kMaxTokenBytes = size_t{1} << 16;

// InvalidArgument names the key and the value that does not fit.
absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file);

// The checks that also hold for a vocabulary made by hand.
absl::Status CheckVocabulary(const Vocabulary& vocabulary);

}  // namespace spillway
