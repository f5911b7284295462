// What the API layer knows of the model it serves: names, limits and the parts that turn text into tokens and
// back.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/chat/chat_template.h"
#include "engine/grammar/constraint_compiler.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/text/output_format.h"

namespace spillway::gateway {

// What is told about the model file, and by whom nothing else is decided.
struct ModelFacts {
  std::string architecture, quantization, identity;
  uint64_t parameters = 0, file_bytes = 0;
  int64_t modified_unix_seconds = 0;
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();  // of the header, without long arrays
};

// Bytes that the workers hold now, as they last said.
struct MemoryUse {
  uint64_t total_bytes = 0, vram_bytes = 0;
};

// Borrows the tokenizer and the template, which outlive every user of this. Immutable; thread-safe.
struct ServedModel {
  std::string id;
  std::vector<std::string> aliases;  // further names that requests may use
  int64_t created_unix_seconds = 0;
  std::string system_fingerprint;  // changes when answers to the same request may
  uint32_t n_ctx = 0;              // tokens of prompt and answer together
  const Tokenizer* tokenizer = nullptr;
  grammar::ConstraintCompiler* constraints = nullptr;  // nullptr: answers cannot be constrained
  uint32_t longest_token_bytes = 0;                    // of the vocabulary; 0 = not known
  const ChatTemplate* chat_template = nullptr;         // nullptr: chat is refused …
  std::string no_chat_reason;                          // … with this reason
  std::string template_text;
  OutputFormat format;                 // of tool calls and reasoning, from the template
  std::vector<int32_t> marker_tokens;  // control tokens that are part of the format
  bool text_arguments = false;         // the template wants a call's arguments as text, not as an object
  ModelFacts facts;
  std::function<MemoryUse()> memory;  // may be empty

  bool Answers(const std::string& name) const;  // "" means whatever is served
  // Reads format, markers and the wish for text from the template.
  void ReadTemplate(const std::string& text);
};

}  // namespace spillway::gateway
