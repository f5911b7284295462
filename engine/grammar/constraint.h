// What an answer must look like, and how far one has come: the next tokens allowed, as bits over the
// vocabulary. Every prefix that it allows can be completed, and the end is allowed only where the text is
// complete; so an answer that ends by itself is JSON and valid.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/grammar/automaton.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/token_trie.h"

namespace spillway::grammar {

using TokenMask = std::shared_ptr<const std::vector<uint8_t>>;  // a bit per token, lowest first

// Thread-safe; what several answers learn of it is shared.
class Constraint {
 public:
  // One JSON value that the schema admits (schema_compiler.h says which schemas). InvalidArgument names the
  // keyword and its path, ResourceExhausted the limit.
  static absl::StatusOr<std::shared_ptr<Constraint>> FromSchema(const nlohmann::ordered_json& schema,
                                                                std::shared_ptr<const TokenTrie> trie);
  // False after a limit of work was passed: nothing more comes of it.
  bool usable();

 private:
  friend class ConstraintState;
  Constraint(Grammar grammar, std::shared_ptr<const TokenTrie> trie)
      : grammar_(std::move(grammar)), trie_(std::move(trie)), automaton_(grammar_, *trie_) {}
  static absl::StatusOr<std::shared_ptr<Constraint>> Make(Grammar grammar,
                                                          std::shared_ptr<const TokenTrie> trie);

  const Grammar grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;  // of what follows
  Automaton automaton_;
  uint64_t epoch_ = 0;  // how often the automaton has forgotten its numbers
};

// One answer under a constraint: a function of the tokens it was given. Confined to one thread at a time.
class ConstraintState {
 public:
  explicit ConstraintState(std::shared_ptr<Constraint> constraint);

  // The tokens that may come next. ResourceExhausted where the constraint passes a limit of work.
  absl::StatusOr<TokenMask> Mask();
  // False, and nothing changes, for a token that is not allowed. A stop id ends the answer.
  bool Advance(int32_t token);
  // Nothing but the end may follow.
  bool Complete();
  bool Accepting();

 private:
  Automaton::Configuration Current();  // with the lock held

  const std::shared_ptr<Constraint> constraint_;
  Automaton::Saved saved_;  // where it stands, should the automaton forget
  bool ended_ = false;
  uint64_t epoch_ = 0;
  Automaton::Configuration at_ = Automaton::kDead;
};

}  // namespace spillway::grammar
