// Reads the tokenizer's metadata keys and refuses what would index outside the vocabulary later.
#include "engine/tokenizer/vocabulary.h"

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
  return vocabulary;
}

absl::Status CheckVocabulary(const Vocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size();
  if (n == 0) return InvalidArgument("tokenizer.ggml.tokens is empty");
  if (n > kMaxTokens) return InvalidArgument("tokenizer.ggml.tokens: {} tokens, at most {}", n, kMaxTokens);
  if (vocabulary.types.size() != n) {
    return InvalidArgument("tokenizer.ggml.token_type: {} entries for {} tokens", vocabulary.types.size(), n);
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
