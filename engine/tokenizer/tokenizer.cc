// Puts the parts together: special tokens out of the text first, then words, then merges; and ids back to
// bytes.
#include "engine/tokenizer/tokenizer.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/base/status.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/special_tokens.h"
#include "engine/tokenizer/vocabulary.h"

namespace spillway {
namespace {

constexpr std::string_view kSupportedModels = "gpt2";

// Control tokens that end a turn in published vocabularies whose metadata names only one of them.
constexpr std::string_view kEndTokens[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
};

// Text to id; of two tokens with one text the later counts.
using TokenIds = absl::flat_hash_map<std::string_view, int32_t>;

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  TokenIds ids;        // of every token; views into `vocabulary`
  TokenIds plain_ids;  // without those that only parse_special may produce
  ByteAlphabet alphabet;
  bool ignore_merges = false;
  bool add_bos = false;
  size_t max_token_bytes = 0;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<BytePairMerger> merger;
  SpecialTokens user_defined;
  SpecialTokens all_special;
  std::vector<int32_t> stop_ids;

  bool HasType(int32_t token, TokenType type) const {
    return token >= 0 && static_cast<size_t>(token) < vocabulary.types.size() &&
           vocabulary.types[token] == type;
  }
  void IndexTokens();
  void CollectStopIds();
  std::optional<int32_t> WholeWord(std::string_view word) const;
  void EncodePlain(std::string_view text, BytePairMerger::Scratch& scratch, std::vector<int32_t>& out) const;
};

void Tokenizer::Impl::IndexTokens() {
  ids.reserve(vocabulary.tokens.size());
  plain_ids.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string_view text = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const TokenType type = vocabulary.types[i];
    const bool special = type == TokenType::kControl || type == TokenType::kUnknown;
    ids[text] = id;
    if (!special) plain_ids[text] = id;
    if (special || type == TokenType::kUserDefined) all_special.Add(text, id);
    if (type == TokenType::kUserDefined) user_defined.Add(text, id);
    max_token_bytes = std::max(max_token_bytes, text.size());
  }
}

void Tokenizer::Impl::CollectStopIds() {
  const auto add = [this](std::optional<int32_t> id) {
    if (id && std::find(stop_ids.begin(), stop_ids.end(), *id) == stop_ids.end()) stop_ids.push_back(*id);
  };
  add(vocabulary.eos);
  add(vocabulary.eot);
  add(vocabulary.eom);
  for (const std::string_view text : kEndTokens) {
    const auto token = ids.find(text);
    if (token != ids.end() && HasType(token->second, TokenType::kControl)) add(token->second);
  }
}

std::optional<int32_t> Tokenizer::Impl::WholeWord(std::string_view word) const {
  if (!ignore_merges || word.size() > max_token_bytes) return std::nullopt;
  std::string text;
  for (const char byte : word) text += alphabet.Character(static_cast<uint8_t>(byte));
  const auto token = plain_ids.find(text);
  if (token == plain_ids.end()) return std::nullopt;
  return token->second;
}

void Tokenizer::Impl::EncodePlain(std::string_view text, BytePairMerger::Scratch& scratch,
                                  std::vector<int32_t>& out) const {
  for (const std::string_view word : pre_tokenizer->Split(text)) {
    if (const std::optional<int32_t> token = WholeWord(word)) {
      out.push_back(*token);
    } else {
      merger->Encode(word, scratch, out);
    }
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const GgufFile& file) {
  SPILLWAY_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(file));
  return Create(std::move(vocabulary));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(Vocabulary vocabulary) {
  if (vocabulary.model != "gpt2") {
    return Unimplemented("tokenizer.ggml.model \"{}\" is not supported; supported: {}", vocabulary.model,
                         kSupportedModels);
  }
  const PreTokenizerSpec* spec = FindPreTokenizer(vocabulary.pre);
  if (spec == nullptr) {
    return Unimplemented("tokenizer.ggml.pre {} is not supported; supported: {}",
                         vocabulary.pre.empty() ? "is absent, which" : fmt::format("\"{}\"", vocabulary.pre),
                         SupportedPreTokenizers());
  }
  SPILLWAY_RETURN_IF_ERROR(CheckVocabulary(vocabulary));
  auto impl = std::make_unique<Impl>();
  impl->vocabulary = std::move(vocabulary);
  impl->ignore_merges = spec->ignore_merges;
  impl->add_bos = impl->vocabulary.add_bos.value_or(spec->add_bos);
  impl->IndexTokens();
  impl->CollectStopIds();
  SPILLWAY_ASSIGN_OR_RETURN(impl->pre_tokenizer, PreTokenizer::Compile(*spec));
  SPILLWAY_ASSIGN_OR_RETURN(impl->merger,
                            BytePairMerger::Build(impl->vocabulary, impl->plain_ids, impl->alphabet));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool parse_special) const {
  std::vector<int32_t> out;
  const auto scratch = BytePairMerger::MakeScratch();
  const SpecialTokens& special = parse_special ? impl_->all_special : impl_->user_defined;
  size_t done = 0;
  while (done < text.size()) {
    const SpecialTokens::Match match = special.Find(text, done);
    impl_->EncodePlain(text.substr(done, match.begin - done), *scratch, out);
    if (match.length > 0) out.push_back(match.id);
    done = match.begin + match.length;
  }
  return out;
}

std::string Tokenizer::TokenBytes(int32_t token, bool special) const {
  if (token < 0 || static_cast<size_t>(token) >= impl_->vocabulary.tokens.size()) return "";
  const std::string& text = impl_->vocabulary.tokens[token];
  switch (impl_->vocabulary.types[token]) {
    case TokenType::kControl:
    case TokenType::kUnknown:
      return special ? text : "";
    case TokenType::kUserDefined:
      return text;
    case TokenType::kUnused:
      return "";
    case TokenType::kByte: {
      unsigned byte = 0;
      if (text.size() == 6 && std::sscanf(text.c_str(), "<0x%2X>", &byte) == 1)
        return std::string(1, static_cast<char>(byte));
      return impl_->alphabet.Decode(text);
    }
    case TokenType::kNormal:
      return impl_->alphabet.Decode(text);
  }
  return "";
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens, bool special) const {
  std::string out;
  for (const int32_t token : tokens) out += TokenBytes(token, special);
  return out;
}

uint32_t Tokenizer::n_vocab() const { return static_cast<uint32_t>(impl_->vocabulary.tokens.size()); }
bool Tokenizer::IsControl(int32_t token) const { return impl_->HasType(token, TokenType::kControl); }

std::optional<int32_t> Tokenizer::FindToken(std::string_view text) const {
  const auto token = impl_->ids.find(text);
  if (token == impl_->ids.end()) return std::nullopt;
  return token->second;
}

std::optional<int32_t> Tokenizer::bos() const { return impl_->vocabulary.bos; }
std::optional<int32_t> Tokenizer::eos() const { return impl_->vocabulary.eos; }
bool Tokenizer::add_bos() const { return impl_->add_bos; }
const std::vector<int32_t>& Tokenizer::stop_ids() const { return impl_->stop_ids; }

}  // namespace spillway
