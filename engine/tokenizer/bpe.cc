// A doubly linked list of symbols and a heap of candidate pairs; a candidate that no longer describes the
// list is skipped when it surfaces, so nothing is ever searched for.
#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/status.h"

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

// Numbers texts: tokens by their id, others from the vocabulary's size on.
class SymbolTable {
 public:
  SymbolTable(const absl::flat_hash_map<std::string_view, int32_t>& ids, size_t n_tokens)
      : ids_(ids), next_(static_cast<int32_t>(n_tokens)) {}

  int32_t Intern(std::string_view text) {
    if (const auto token = ids_.find(text); token != ids_.end()) return token->second;
    const auto [entry, is_new] = extra_.try_emplace(std::string(text), next_);
    if (is_new) ++next_;
    return entry->second;
  }

 private:
  const absl::flat_hash_map<std::string_view, int32_t>& ids_;
  absl::flat_hash_map<std::string, int32_t> extra_;
  int32_t next_;
};

}  // namespace

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
    const ByteAlphabet& alphabet) {
  auto merger = std::unique_ptr<BytePairMerger>(new BytePairMerger);
  merger->n_tokens_ = static_cast<int32_t>(vocabulary.tokens.size());
  SymbolTable symbols(ids, vocabulary.tokens.size());
  // SmolLM's unknown token is <|endoftext|>: a byte may be dropped, but must not end the text.
  int32_t unknown = vocabulary.unknown.value_or(-1);
  if (unknown >= 0 && vocabulary.types[unknown] == TokenType::kControl) unknown = -1;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t symbol = symbols.Intern(alphabet.Character(static_cast<uint8_t>(byte)));
    merger->byte_symbols_[byte] = symbol;
    int32_t token = symbol < merger->n_tokens_ ? symbol : unknown;
    if (symbol >= merger->n_tokens_) {
      if (const auto spelt = ids.find(fmt::format("<0x{:02X}>", byte)); spelt != ids.end())
        token = spelt->second;
    }
    merger->byte_tokens_[byte] = token;
  }
  merger->merges_.reserve(vocabulary.merges.size());
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
    merger->merges_.try_emplace(pair, Merge{static_cast<uint32_t>(rank), symbols.Intern(left + right)});
  }
  return merger;
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
  std::vector<Symbol>& symbols = scratch.symbols;
  const auto n = static_cast<uint32_t>(word.size());
  symbols.resize(n);
  scratch.heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    symbols[i] = {byte_symbols_[static_cast<uint8_t>(word[i])], i, i == 0 ? kNone : i - 1,
                  i + 1 == n ? kNone : i + 1};
  }
  for (uint32_t i = 0; i < n; ++i) Offer(i, scratch);
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
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) {
    if (symbols[i].id < n_tokens_) {
      out.push_back(symbols[i].id);
      continue;
    }
    const uint32_t end = symbols[i].next == kNone ? n : symbols[symbols[i].next].begin;
    for (uint32_t byte = symbols[i].begin; byte < end; ++byte) {
      const int32_t token = byte_tokens_[static_cast<uint8_t>(word[byte])];
      if (token >= 0) out.push_back(token);
    }
  }
}

}  // namespace spillway
