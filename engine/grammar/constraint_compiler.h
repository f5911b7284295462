// Constraints for one vocabulary. The last few are kept, for clients tend to ask for the same schema again
// and what one answer has found out is there for the next.
#pragma once

#include <absl/status/statusor.h>

#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine/grammar/constraint.h"

namespace spillway::grammar {

// Thread-safe. The tokenizer outlives it.
class ConstraintCompiler {
 public:
  // The trie is built on a thread of its own (a quarter of a second for 150 000 tokens); who is first waits.
  explicit ConstraintCompiler(const Tokenizer& tokenizer)
      : trie_(std::async(std::launch::async, [&tokenizer] { return TokenTrie::Build(tokenizer); })) {}

  // Constraint::FromSchema with its errors. {"type":"object"}: any JSON object.
  absl::StatusOr<std::shared_ptr<Constraint>> Compile(const nlohmann::ordered_json& schema);

 private:
  const std::shared_future<std::shared_ptr<const TokenTrie>> trie_;
  std::mutex mutex_;  // of what follows
  std::deque<std::pair<std::string, std::shared_ptr<Constraint>>>
      kept_;  // newest first, by the schema's text
};

}  // namespace spillway::grammar
