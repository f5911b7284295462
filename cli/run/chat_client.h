// Asks the cluster over its HTTP API and measures the answer as a client sees it.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spillway::cli {

struct Answer {
  std::string text;
  std::string finish_reason;
  double ttft_seconds = 0;
  double tokens_per_second = 0;  // after the first token; 0 with fewer than two
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
};

struct AskOptions {
  int64_t max_tokens = -1;  // below 1 = what the context allows
  // Fields of the request by their API names. Without another temperature the answer is greedy.
  nlohmann::ordered_json sampling = {{"temperature", 0}};
};

// messages: of /v1/chat/completions. `on_text` gets every piece as it comes and returns false to break off.
// OutOfRange when the messages are longer than the context; Unavailable when the answer breaks off or the API
// refuses, with its reason.
absl::StatusOr<Answer> Ask(const std::string& api_address, const nlohmann::ordered_json& messages,
                           const AskOptions& options, const std::function<bool(std::string_view)>& on_text);

}  // namespace spillway::cli
