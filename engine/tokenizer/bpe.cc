// A doubly linked list of symbols and a heap of candidate pairs; a candidate that no longer describes the
// list is skipped when it surfaces, so nothing is ever searched for.
#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/tokenizer/utf8.h"

namespace spillway {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kMaxWordBytes = size_t{1} << 30;  // positions are 32 bits; a longer word is cut

struct Symbol {
  int32_t id = -1;  // -1: merged into its left neighbour
  uint32_t begin = 0;
  uint32_t previous = kNone;
  uint32_t next = kNone;
};

struct Candidate {
  uint32_t rank = 0;
  uint32_t left = 0;  // position in the list
  int32_t left_id = 0;
  int32_t right_id = 0;
  int32_t merged_id = 0;

  bool operator<(
      const Candidate& other) const {  // the heap's top is the greatest: lowest rank, then leftmost
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

// Of a token that is made by scored merges: each of its cuts is looked up. Real ones are under 200 bytes.
constexpr size_t kMaxScoredTokenBytes = 1024;
// A character that no token and no merge contains.
constexpr int32_t kStrangeSymbol = INT32_MAX;

// The only code point of a text.
std::optional<uint32_t> SingleCharacter(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const Utf8Step step = NextUtf8(text);
  if (step.kind != Utf8Kind::kCharacter || step.length != text.size()) return std::nullopt;
  return step.code_point;
}

}  // namespace

// Numbers texts: tokens by their id, others from the vocabulary's size on.
class BytePairMerger::SymbolTable {
 public:
  SymbolTable(const absl::flat_hash_map<std::string_view, int32_t>& ids, size_t n_tokens)
      : ids_(ids), next_(static_cast<int32_t>(n_tokens)) {}

  int32_t Intern(std::string_view text) {
    if (const auto token = ids_.find(text); token != ids_.end()) return token->second;
    const auto [entry, is_new] = extra_.try_emplace(std::string(text), next_);
    if (is_new) ++next_;
    return entry->second;
  }

  // The symbol of a token or a single character; nullopt: no word ever holds this text as one symbol.
  std::optional<int32_t> TokenOrCharacter(std::string_view text) {
    if (const auto token = ids_.find(text); token != ids_.end()) return token->second;
    if (!SingleCharacter(text)) return std::nullopt;
    return Intern(text);
  }

  absl::flat_hash_map<uint32_t, int32_t> Characters() const {
    absl::flat_hash_map<uint32_t, int32_t> characters;
    const auto add = [&](const auto& symbols) {
      for (const auto& [text, symbol] : symbols) {
        if (const auto character = SingleCharacter(text)) characters.try_emplace(*character, symbol);
      }
    };
    add(ids_);
    add(extra_);
    return characters;
  }

 private:
  const absl::flat_hash_map<std::string_view, int32_t>& ids_;
  absl::flat_hash_map<std::string, int32_t> extra_;
  int32_t next_;
};

struct BytePairMerger::Scratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

void BytePairMerger::FreeScratch::operator()(Scratch* scratch) const { delete scratch; }

std::unique_ptr<BytePairMerger::Scratch, BytePairMerger::FreeScratch> BytePairMerger::MakeScratch() {
  return std::unique_ptr<Scratch, FreeScratch>(new Scratch);
}

absl::StatusOr<std::unique_ptr<BytePairMerger>> BytePairMerger::Build(
    const Vocabulary& vocabulary, const absl::flat_hash_map<std::string_view, int32_t>& ids,
    const BytePairOptions& options) {
  auto merger = std::unique_ptr<BytePairMerger>(new BytePairMerger);
  merger->n_tokens_ = static_cast<int32_t>(vocabulary.tokens.size());
  merger->over_bytes_ = options.alphabet != nullptr;
  SymbolTable symbols(ids, vocabulary.tokens.size());
  merger->SetByteTokens(vocabulary, ids);
  if (options.alphabet != nullptr) merger->SpellBytes(*options.alphabet, symbols);
  SPILLWAY_RETURN_IF_ERROR(options.by_score ? merger->AddScoredMerges(vocabulary, symbols)
                                            : merger->AddListedMerges(vocabulary, symbols));
  if (!merger->over_bytes_) merger->character_symbols_ = symbols.Characters();
  return merger;
}

void BytePairMerger::SetByteTokens(const Vocabulary& vocabulary,
                                   const absl::flat_hash_map<std::string_view, int32_t>& ids) {
  unknown_ = vocabulary.unknown.value_or(-1);
  // SmolLM's unknown token is <|endoftext|>: a byte may be dropped, but must not end the text.
  if (over_bytes_ && unknown_ >= 0 && vocabulary.types[unknown_] == TokenType::kControl) unknown_ = -1;
  for (int byte = 0; byte < 256; ++byte) {
    auto token = ids.find(fmt::format("<0x{:02X}>", byte));
    if (token == ids.end() && !over_bytes_) token = ids.find(std::string(1, static_cast<char>(byte)));
    byte_tokens_[byte] = token == ids.end() ? unknown_ : token->second;
  }
}

void BytePairMerger::SpellBytes(const ByteAlphabet& alphabet, SymbolTable& symbols) {
  for (int byte = 0; byte < 256; ++byte) {
    byte_symbols_[byte] = symbols.Intern(alphabet.Character(static_cast<uint8_t>(byte)));
    if (byte_symbols_[byte] < n_tokens_) byte_tokens_[byte] = byte_symbols_[byte];
  }
}

absl::Status BytePairMerger::AddListedMerges(const Vocabulary& vocabulary, SymbolTable& symbols) {
  merges_.reserve(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string& merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (merge.size() > 2 * kMaxTokenBytes || space == std::string::npos || space + 1 == merge.size()) {
      return InvalidArgument("tokenizer.ggml.merges[{}]: \"{}\" is not two symbols with a space between",
                             rank, merge.substr(0, 80));
    }
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    const uint64_t pair = Pair(symbols.Intern(left), symbols.Intern(right));
    merges_.try_emplace(pair, Merge{static_cast<uint32_t>(rank), symbols.Intern(left + right)});
  }
  return absl::OkStatus();
}

// Every cut of every token into two texts that may stand side by side is a merge.
absl::Status BytePairMerger::AddScoredMerges(const Vocabulary& vocabulary, SymbolTable& symbols) {
  std::vector<float> scores = vocabulary.scores;
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const TokenType type = vocabulary.types[i];
    // Text never becomes a control token, nor the byte token whose name it spells.
    if (type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kByte) continue;
    const std::string_view text = vocabulary.tokens[i];
    if (text.size() > kMaxScoredTokenBytes) {
      return InvalidArgument("tokenizer.ggml.tokens[{}]: {} bytes, at most {} where scores order the merges",
                             i, text.size(), kMaxScoredTokenBytes);
    }
    const auto rank = std::lower_bound(scores.begin(), scores.end(), vocabulary.scores[i], std::greater<>());
    const Merge merge = {static_cast<uint32_t>(rank - scores.begin()), symbols.Intern(text)};
    if (merge.symbol != static_cast<int32_t>(i)) continue;  // another token of the same text counts
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80) continue;  // inside a character
      const auto left = symbols.TokenOrCharacter(text.substr(0, cut));
      if (!left) continue;
      const auto right = symbols.TokenOrCharacter(text.substr(cut));
      if (right) merges_.try_emplace(Pair(*left, *right), merge);
    }
  }
  return absl::OkStatus();
}

void BytePairMerger::Offer(uint32_t left, Scratch& scratch) const {
  const Symbol& symbol = scratch.symbols[left];
  if (symbol.next == kNone) return;
  const Symbol& right = scratch.symbols[symbol.next];
  const auto merge = merges_.find(Pair(symbol.id, right.id));
  if (merge == merges_.end()) return;
  scratch.heap.push_back({merge->second.rank, left, symbol.id, right.id, merge->second.symbol});
  std::push_heap(scratch.heap.begin(), scratch.heap.end());
}

void BytePairMerger::Encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  for (; word.size() > kMaxWordBytes; word.remove_prefix(kMaxWordBytes)) {
    EncodeBounded(word.substr(0, kMaxWordBytes), scratch, out);
  }
  EncodeBounded(word, scratch, out);
}

void BytePairMerger::EncodeBounded(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  if (word.empty()) return;
  SplitIntoSymbols(word, scratch);
  MergeSymbols(scratch);
  AppendTokens(word, scratch, out);
}

void BytePairMerger::SplitIntoSymbols(std::string_view word, Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (size_t begin = 0; begin < word.size();) {
    int32_t id = kStrangeSymbol;
    size_t length = 1;
    if (over_bytes_) {
      id = byte_symbols_[static_cast<uint8_t>(word[begin])];
    } else {
      const Utf8Step step = NextUtf8(word.substr(begin));
      length = step.length;
      if (step.kind == Utf8Kind::kCharacter) {
        const auto symbol = character_symbols_.find(step.code_point);
        if (symbol != character_symbols_.end()) id = symbol->second;
      }
    }
    const auto i = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, static_cast<uint32_t>(begin), i == 0 ? kNone : i - 1, i + 1});
    begin += length;
  }
  symbols.back().next = kNone;
}

void BytePairMerger::MergeSymbols(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  scratch.heap.clear();
  for (uint32_t i = 0; i < symbols.size(); ++i) Offer(i, scratch);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end());
    const Candidate candidate = scratch.heap.back();
    scratch.heap.pop_back();
    Symbol& left = symbols[candidate.left];
    if (left.id != candidate.left_id || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    if (right.id != candidate.right_id) continue;
    left.id = candidate.merged_id;
    left.next = right.next;
    right.id = -1;
    if (left.next != kNone) symbols[left.next].previous = candidate.left;
    if (left.previous != kNone) Offer(left.previous, scratch);
    Offer(candidate.left, scratch);
  }
}

void BytePairMerger::AppendTokens(std::string_view word, const Scratch& scratch,
                                  std::vector<int32_t>& out) const {
  const std::vector<Symbol>& symbols = scratch.symbols;
  bool after_unknown = false;
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) {
    if (symbols[i].id < n_tokens_) {
      out.push_back(symbols[i].id);
      after_unknown = false;
      continue;
    }
    const size_t end = symbols[i].next == kNone ? word.size() : symbols[symbols[i].next].begin;
    for (size_t byte = symbols[i].begin; byte < end; ++byte) {
      const int32_t token = byte_tokens_[static_cast<uint8_t>(word[byte])];
      const bool unknown = token == unknown_;
      if (token >= 0 && !(unknown && after_unknown)) out.push_back(token);
      after_unknown = unknown && !over_bytes_;
    }
  }
}

}  // namespace spillway
