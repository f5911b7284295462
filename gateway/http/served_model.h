// What the API layer knows of the model it serves: names, limits and the parts that turn text into tokens and
// back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/chat/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace spillway::gateway {

// Borrows the tokenizer and the template, which outlive every user of this. Immutable; thread-safe.
struct ServedModel {
  std::string id;
  std::vector<std::string> aliases;  // further names that requests may use
  int64_t created_unix_seconds = 0;
  std::string system_fingerprint;  // changes when answers to the same request may
  uint32_t n_ctx = 0;              // tokens of prompt and answer together
  const Tokenizer* tokenizer = nullptr;
  uint32_t longest_token_bytes = 0;             // of the vocabulary; 0 = not known
  const ChatTemplate* chat_template = nullptr;  // nullptr: chat is refused …
  std::string no_chat_reason;                   // … with this reason

  bool Answers(const std::string& name) const;  // "" means whatever is served
};

}  // namespace spillway::gateway
