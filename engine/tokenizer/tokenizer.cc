// Puts the parts together: special tokens out of the text first, then words, then merges; and ids back to
// bytes.
#include "engine/tokenizer/tokenizer.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/ascii.h>

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

constexpr std::string_view kSupportedModels = "gpt2, llama, gemma4";

// Models of other kinds, so that an error can say what they are.
constexpr std::pair<std::string_view, std::string_view> kOtherModels[] = {
    {"bert", "WordPiece"}, {"t5", "SentencePiece unigram"}, {"rwkv", "RWKV"},
    {"plamo2", "PLaMo 2"}, {"no_vocab", "no vocabulary"},   {"none", "no vocabulary"}};

// Tokens that end a turn in published vocabularies whose metadata names only one of them. Some files call
// them user-defined; text becomes one of them only where special tokens are parsed all the same.
constexpr std::string_view kEndTokens[] = {
    "<|im_end|>",    "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
    "<end_of_turn>", "<turn|>",    "<|return|>", "<|call|>",      "<｜end▁of▁sentence｜>",
};
constexpr std::string_view kPhiEndToken = "<|end|>";  // inside a turn where <|return|> ends one
constexpr std::string_view kHarmonyEndToken = "<|return|>";

// Ends a text too, but is a mark-up tag of its own in Gemma's vocabularies: no reason to stop there.
constexpr std::string_view kEndOfSentence = "</s>";

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // ▁, U+2581

// Added tokens of Phi-3 that leave the white space after them alone.
constexpr std::string_view kUnstrippedTokens[] = {"<unk>", "<s>", "<|endoftext|>"};

bool IsSpecial(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kUserDefined;
}

bool IsEndToken(std::string_view text) {
  return std::find(std::begin(kEndTokens), std::end(kEndTokens), text) != std::end(kEndTokens) ||
         text == kPhiEndToken || text == kEndOfSentence;
}

std::string MarkSpaces(std::string_view text, bool prefix) {
  std::string out(prefix ? kSpaceMark : "");
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
  return out;
}

std::string UnmarkSpaces(std::string_view text) {
  std::string out;
  for (size_t at = text.find(kSpaceMark); at != std::string_view::npos; at = text.find(kSpaceMark)) {
    out += text.substr(0, at);
    out += ' ';
    text.remove_prefix(at + kSpaceMark.size());
  }
  out += text;
  return out;
}

// Text to id; of two tokens with one text the later counts.
using TokenIds = absl::flat_hash_map<std::string_view, int32_t>;

// How the vocabulary's text is spelt and split; Unimplemented names what this engine does not read.
absl::StatusOr<PreTokenizerSpec> ChooseSpec(const Vocabulary& vocabulary) {
  if (vocabulary.model == kSentencePieceModel) return kSentencePieceSpec;
  if (vocabulary.model != kByteLevelModel && vocabulary.model != kGemma4Model) {
    std::string kind;
    for (const auto& [model, what] : kOtherModels) {
      if (vocabulary.model == model) kind = fmt::format(" ({})", what);
    }
    return Unimplemented("tokenizer.ggml.model \"{}\"{} is not supported; supported: {}", vocabulary.model,
                         kind, kSupportedModels);
  }
  const std::string_view pre = vocabulary.model == kGemma4Model ? kGemma4Model : vocabulary.pre;
  const PreTokenizerSpec* spec = FindPreTokenizer(pre);
  if (spec == nullptr) {
    return Unimplemented("tokenizer.ggml.pre {} is not supported; supported: {}",
                         pre.empty() ? "is absent, which" : fmt::format("\"{}\"", pre),
                         SupportedPreTokenizers());
  }
  return *spec;
}

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  TokenIds ids;        // of every token; views into `vocabulary`
  TokenIds plain_ids;  // without those that only parse_special may produce
  ByteAlphabet alphabet;
  PreTokenizerSpec spec;
  bool add_bos = false;
  bool add_space_prefix = false;
  size_t max_token_bytes = 0;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<BytePairMerger> merger;
  SpecialTokens user_defined;
  SpecialTokens all_special;
  std::vector<int32_t> stop_ids;

  bool Holds(int32_t token) const {
    return token >= 0 && static_cast<size_t>(token) < vocabulary.types.size();
  }
  bool HasType(int32_t token, TokenType type) const {
    return Holds(token) && vocabulary.types[token] == type;
  }
  bool StripsAfter(int32_t token) const;
  void IndexTokens();
  void CollectStopIds();
  std::optional<int32_t> WholeWord(std::string_view word) const;
  void EncodePlain(std::string_view text, bool prefix, BytePairMerger::Scratch& scratch,
                   std::vector<int32_t>& out) const;
};

void Tokenizer::Impl::IndexTokens() {
  ids.reserve(vocabulary.tokens.size());
  plain_ids.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string_view text = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const TokenType type = vocabulary.types[i];
    const bool always_parsed = type == TokenType::kUserDefined && !IsEndToken(text);
    ids[text] = id;
    if (IsSpecial(type)) all_special.Add(text, id);
    if (always_parsed) user_defined.Add(text, id);
    if (!IsSpecial(type) || always_parsed) plain_ids[text] = id;
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
  const auto add_text = [&](std::string_view text) {
    const auto token = ids.find(text);
    if (token == ids.end()) return;
    const TokenType type = vocabulary.types[token->second];
    if (type == TokenType::kControl || type == TokenType::kUserDefined) add(token->second);
  };
  for (const std::string_view text : kEndTokens) add_text(text);
  if (!ids.contains(kHarmonyEndToken)) add_text(kPhiEndToken);
}

bool Tokenizer::Impl::StripsAfter(int32_t token) const {
  const auto& kept = kUnstrippedTokens;
  return vocabulary.strip_after_added_tokens &&
         std::find(std::begin(kept), std::end(kept), vocabulary.tokens[token]) == std::end(kept);
}

std::optional<int32_t> Tokenizer::Impl::WholeWord(std::string_view word) const {
  const bool may_be = spec.whole_words == WholeWords::kAll ||
                      (spec.whole_words == WholeWords::kLineEnds && word.front() == '\n');
  if (!may_be || word.size() > max_token_bytes) return std::nullopt;
  std::string text(spec.characters ? word : "");
  for (const char byte : spec.characters ? "" : word) text += alphabet.Character(static_cast<uint8_t>(byte));
  const auto token = plain_ids.find(text);
  if (token == plain_ids.end()) return std::nullopt;
  return token->second;
}

void Tokenizer::Impl::EncodePlain(std::string_view text, bool prefix, BytePairMerger::Scratch& scratch,
                                  std::vector<int32_t>& out) const {
  std::string marked;
  if (spec.characters) text = marked = MarkSpaces(text, prefix && add_space_prefix);
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
  SPILLWAY_ASSIGN_OR_RETURN(const PreTokenizerSpec spec, ChooseSpec(vocabulary));
  SPILLWAY_RETURN_IF_ERROR(CheckVocabulary(vocabulary));
  auto impl = std::make_unique<Impl>();
  impl->vocabulary = std::move(vocabulary);
  impl->spec = spec;
  impl->add_bos = impl->vocabulary.add_bos.value_or(spec.add_bos);
  impl->add_space_prefix = impl->vocabulary.add_space_prefix.value_or(spec.add_space_prefix);
  impl->IndexTokens();
  impl->CollectStopIds();
  SPILLWAY_ASSIGN_OR_RETURN(impl->pre_tokenizer, PreTokenizer::Compile(spec));
  const BytePairOptions options = {.alphabet = spec.characters ? nullptr : &impl->alphabet,
                                   .by_score = impl->vocabulary.model == kSentencePieceModel};
  SPILLWAY_ASSIGN_OR_RETURN(impl->merger, BytePairMerger::Build(impl->vocabulary, impl->plain_ids, options));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool parse_special) const {
  std::vector<int32_t> out;
  const auto scratch = BytePairMerger::MakeScratch();
  const SpecialTokens& special = parse_special ? impl_->all_special : impl_->user_defined;
  bool prefix = true;  // at the start and after a special token
  for (size_t done = 0; done < text.size();) {
    const SpecialTokens::Match match = special.Find(text, done);
    if (match.begin > done) {
      impl_->EncodePlain(text.substr(done, match.begin - done), prefix, *scratch, out);
      prefix = false;
    }
    done = match.begin + match.length;
    if (match.length == 0) continue;
    out.push_back(match.id);
    prefix = true;
    if (!impl_->StripsAfter(match.id)) continue;
    while (done < text.size() && absl::ascii_isspace(static_cast<unsigned char>(text[done]))) ++done;
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
      return impl_->spec.characters ? UnmarkSpaces(text) : impl_->alphabet.Decode(text);
  }
  return "";
}

std::string Tokenizer::TokenBytesAfter(std::optional<int32_t> previous, int32_t token, bool special) const {
  std::string bytes = TokenBytes(token, special);
  if (!impl_->add_space_prefix || !impl_->spec.characters || bytes.empty() || bytes.front() != ' ')
    return bytes;
  const auto is_special = [this](int32_t id) {
    return impl_->Holds(id) && IsSpecial(impl_->vocabulary.types[id]);
  };
  if (!is_special(token) && (!previous || is_special(*previous))) bytes.erase(0, 1);
  return bytes;
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens, bool special) const {
  std::string out;
  std::optional<int32_t> previous;
  for (const int32_t token : tokens) {
    out += TokenBytesAfter(previous, token, special);
    previous = token;
  }
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
