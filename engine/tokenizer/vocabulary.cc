// Reads the tokenizer's metadata keys and refuses what would index outside the vocabulary later.
#include "engine/tokenizer/vocabulary.h"

#include <absl/strings/ascii.h>

#include <cmath>
#include <utility>

#include "engine/base/status.h"

namespace spillway {
namespace {

absl::Status ReadId(const GgufFile& file, std::string_view key, std::optional<int32_t>& id) {
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, file.GetUint(key));
  if (!value) return absl::OkStatus();
  if (*value == UINT32_MAX) return absl::OkStatus();  // how some converters write "none"
  if (*value >= kMaxTokens) return InvalidArgument("{}: {} is no token id", key, *value);
  id = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

absl::Status ReadTypes(const GgufFile& file, Vocabulary& vocabulary) {
  SPILLWAY_ASSIGN_OR_RETURN(const auto types, file.GetInts("tokenizer.ggml.token_type"));
  if (!types) {
    vocabulary.types.assign(vocabulary.tokens.size(), TokenType::kNormal);
    return absl::OkStatus();
  }
  vocabulary.types.reserve(types->size());
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte)) {
      return InvalidArgument("tokenizer.ggml.token_type[{}]: {} is not a token type (0 to 6)", i, type);
    }
    vocabulary.types.push_back(type == 0 ? TokenType::kNormal : static_cast<TokenType>(type));
  }
  return absl::OkStatus();
}

absl::Status ReadScores(const GgufFile& file, Vocabulary& vocabulary) {
  SPILLWAY_ASSIGN_OR_RETURN(const auto scores, file.GetFloats("tokenizer.ggml.scores"));
  if (scores) vocabulary.scores.assign(scores->begin(), scores->end());
  return absl::OkStatus();
}

// What SentencePiece files of the first converters leave out: <unk>, <s> and </s> come first.
void AssumeSentencePieceIds(Vocabulary& vocabulary) {
  const auto assume = [&](std::optional<int32_t>& id, int32_t usual) {
    if (id || static_cast<size_t>(usual) >= vocabulary.types.size()) return;
    const TokenType type = vocabulary.types[usual];
    if (type == TokenType::kControl || type == TokenType::kUnknown) id = usual;
  };
  assume(vocabulary.unknown, 0);
  assume(vocabulary.bos, 1);
  assume(vocabulary.eos, 2);
}

absl::StatusOr<bool> IsPhi3(const GgufFile& file) {
  SPILLWAY_ASSIGN_OR_RETURN(const auto architecture, file.GetString("general.architecture"));
  if (architecture == "phi3") return true;
  SPILLWAY_ASSIGN_OR_RETURN(const auto name, file.GetString("general.name"));
  std::string lower = name.value_or("");
  for (char& c : lower) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
}

}  // namespace

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  SPILLWAY_ASSIGN_OR_RETURN(const auto model, file.GetString("tokenizer.ggml.model"));
  if (!model) return InvalidArgument("{}: no tokenizer.ggml.model: the file has no vocabulary", file.path());
  vocabulary.model = *model;
  SPILLWAY_ASSIGN_OR_RETURN(const auto pre, file.GetString("tokenizer.ggml.pre"));
  vocabulary.pre = pre.value_or("");
  const std::vector<std::string>* tokens = file.FindStrings("tokenizer.ggml.tokens");
  if (tokens == nullptr) {
    return InvalidArgument("{}: tokenizer.ggml.tokens is absent or no array of strings", file.path());
  }
  vocabulary.tokens = *tokens;
  SPILLWAY_RETURN_IF_ERROR(ReadTypes(file, vocabulary));
  const std::vector<std::string>* merges = file.FindStrings("tokenizer.ggml.merges");
  if (merges != nullptr) {
    vocabulary.merges = *merges;
  } else if (file.metadata().contains("tokenizer.ggml.merges")) {
    return InvalidArgument("{}: tokenizer.ggml.merges is no array of strings", file.path());
  }
  SPILLWAY_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.bos_token_id", vocabulary.bos));
  SPILLWAY_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eos_token_id", vocabulary.eos));
  SPILLWAY_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eot_token_id", vocabulary.eot));
  SPILLWAY_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eom_token_id", vocabulary.eom));
  SPILLWAY_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.unknown_token_id", vocabulary.unknown));
  SPILLWAY_ASSIGN_OR_RETURN(vocabulary.add_bos, file.GetBool("tokenizer.ggml.add_bos_token"));
  SPILLWAY_ASSIGN_OR_RETURN(vocabulary.add_space_prefix, file.GetBool("tokenizer.ggml.add_space_prefix"));
  if (vocabulary.model == kSentencePieceModel) {
    SPILLWAY_RETURN_IF_ERROR(ReadScores(file, vocabulary));
    AssumeSentencePieceIds(vocabulary);
    SPILLWAY_ASSIGN_OR_RETURN(vocabulary.strip_after_added_tokens, IsPhi3(file));
  }
  return vocabulary;
}

absl::Status CheckVocabulary(const Vocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size();
  if (n == 0) return InvalidArgument("tokenizer.ggml.tokens is empty");
  if (n > kMaxTokens) return InvalidArgument("tokenizer.ggml.tokens: {} tokens, at most {}", n, kMaxTokens);
  if (vocabulary.types.size() != n) {
    return InvalidArgument("tokenizer.ggml.token_type: {} entries for {} tokens", vocabulary.types.size(), n);
  }
  if (vocabulary.model == kSentencePieceModel && vocabulary.scores.size() != n) {
    return InvalidArgument("tokenizer.ggml.scores: {} entries for {} tokens", vocabulary.scores.size(), n);
  }
  for (size_t i = 0; i < vocabulary.scores.size(); ++i) {
    if (std::isnan(vocabulary.scores[i]))
      return InvalidArgument("tokenizer.ggml.scores[{}]: not a number", i);
  }
  for (size_t i = 0; i < n; ++i) {
    if (vocabulary.tokens[i].size() > kMaxTokenBytes) {
      return InvalidArgument("tokenizer.ggml.tokens[{}]: {} bytes, at most {}", i,
                             vocabulary.tokens[i].size(), kMaxTokenBytes);
    }
  }
  const std::pair<const char*, std::optional<int32_t>> ids[] = {{"bos", vocabulary.bos},
                                                                {"eos", vocabulary.eos},
                                                                {"eot", vocabulary.eot},
                                                                {"eom", vocabulary.eom},
                                                                {"unknown", vocabulary.unknown}};
  for (const auto& [name, id] : ids) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= n)) {
      return InvalidArgument("tokenizer.ggml.{}_token_id: {} is outside the vocabulary of {} tokens", name,
                             *id, n);
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
