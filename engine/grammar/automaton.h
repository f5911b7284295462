// Runs a Grammar as a pushdown machine that is made deterministic while it runs: a configuration is the set
// of stacks a text can have led to, numbered where it is met first, with its moves by byte remembered.
// Bounded: stacks in depth, configurations and work in number.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/token_trie.h"

namespace spillway::grammar {

inline constexpr uint32_t kMaxStackDepth = 400;      // frames; about a hundred levels of JSON
inline constexpr size_t kMaxStacksAtOnce = 2048;     // of one configuration
inline constexpr size_t kMaxConfigurations = 4096;   // remembered between tokens
inline constexpr uint64_t kMaxMaskWork = 1'000'000;  // stacks expanded for one mask

// Confined to one thread at a time. `grammar` and `trie` outlive it.
class Automaton {
 public:
  using Configuration = int32_t;
  static constexpr Configuration kDead = -1;

  Automaton(const Grammar& grammar, const TokenTrie& trie);

  Configuration Start();
  // Work is counted from here on: to be called for every step that is not part of a mask.
  void Renew() { left_ = kMaxMaskWork; }
  // kDead where no text goes on with that byte, and after an error.
  Configuration Next(Configuration from, uint8_t byte);
  bool Accepting(Configuration configuration) const { return entries_[configuration].accepting; }
  bool CanGoOn(Configuration configuration) const { return !entries_[configuration].stacks.empty(); }
  // One bit a token of the vocabulary, lowest first: those after whose bytes the text can still be completed.
  // Valid until the next call. ResourceExhausted names the limit that the grammar passes.
  absl::StatusOr<std::shared_ptr<const std::vector<uint8_t>>> Mask(Configuration configuration);

  // A configuration by its content, for after everything was forgotten.
  struct Saved {
    struct Frame {
      uint32_t parent, node, counter;  // parent: 1 + its place in the list, 0 for the empty stack
    };
    std::vector<Frame> frames;
    std::vector<uint32_t> stacks;
    bool accepting = false;
  };
  Saved Save(Configuration configuration) const;
  Configuration Restore(const Saved& saved);

  // Forgets everything, numbers included, when much has been remembered. True where it did.
  bool ForgetIfLarge();
  const absl::Status& error() const { return error_; }

 private:
  struct Frame {
    uint32_t parent;
    uint32_t node;
    uint32_t counter;  // bytes of a literal, state of an automaton, parts done
    uint32_t depth;
    bool operator==(const Frame& o) const {
      return parent == o.parent && node == o.node && counter == o.counter;
    }
    template <typename H>
    friend H AbslHashValue(H h, const Frame& f) {
      return H::combine(std::move(h), f.parent, f.node, f.counter);
    }
  };
  using Stacks = std::vector<uint32_t>;
  struct Entry {
    Stacks stacks;  // those with a byte to come, ascending
    bool accepting = false;
    std::unique_ptr<std::array<Configuration, 256>> next;
    std::shared_ptr<const std::vector<uint8_t>> mask;
  };

  uint32_t Push(uint32_t parent, uint32_t node, uint32_t counter);
  void Enter(uint32_t parent, uint32_t node);
  Configuration Close();  // of work_
  void Expand(uint32_t stack, Entry& entry);
  Configuration Number(Entry entry);
  Configuration Shortened(Configuration configuration);
  uint32_t ShortenedStack(uint32_t stack, absl::flat_hash_map<uint32_t, uint32_t>& done);
  uint32_t ShortenedCount(const Grammar::Node& node, uint32_t count) const;
  void Fail(std::string_view what);

  const Grammar& grammar_;
  const TokenTrie& trie_;
  std::vector<Frame> frames_;  // 0: the empty stack
  absl::flat_hash_map<Frame, uint32_t> frame_ids_;
  std::vector<Entry> entries_;
  absl::flat_hash_map<Stacks, Configuration> entry_ids_;  // the stacks, and 0 in front where accepting
  std::vector<uint32_t> work_;
  std::vector<uint32_t> seen_;  // by stack: the round it was last expanded in
  uint32_t round_ = 0;
  uint64_t left_ = kMaxMaskWork;
  size_t masks_ = 0;
  absl::Status error_;
};

}  // namespace spillway::grammar
