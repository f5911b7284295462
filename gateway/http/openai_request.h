// A body of /v1/chat/completions or /v1/completions → a GenerationRequest and how its answer is to be told.
// Fields this server knows but does not support are refused by name, never dropped; fields nobody knows are
// ignored. Pure: no I/O, no clock, no randomness but what the context brings.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/api_error.h"
#include "gateway/http/bounded_json.h"
#include "gateway/http/served_model.h"
#include "gateway/scheduler/scheduler.h"
#include "gateway/text/output_parser.h"
#include "gateway/text/stop_matcher.h"

namespace spillway::gateway {

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 256;
inline constexpr int64_t kMaxChoices = 8;
// What OpenAI documents for /v1/completions without max_tokens; chat goes on to the end of the context.
inline constexpr uint32_t kDefaultCompletionTokens = 16;

enum class Endpoint : uint8_t { kChatCompletions, kCompletions };
constexpr std::string_view EndpointName(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions ? "chat_completions" : "completions";
}

struct ParsedRequest {
  Endpoint endpoint = Endpoint::kChatCompletions;
  GenerationRequest generation;  // ready to submit, its seed given or drawn
  StopMatcher stop;              // strings that end the text
  bool stream = false;
  bool include_usage = false;  // a usage chunk ends the stream
  uint32_t n = 1;              // choices; each draws for itself
  bool echo = false;
  std::string before;  // text that every choice begins with: the prompt, where it is echoed
  // How the answer is taken apart, and what was written for the model already as its beginning.
  OutputFormat format;
  OutputOptions output;
  ToolSet tools;
  std::string forced;
};

struct ParseContext {
  const ServedModel& model;
  uint64_t fresh_seed = 0;       // taken when the client gives none
  int64_t now_unix_seconds = 0;  // for chat templates that print the date
};

// The request, or the first error with its `param`.
std::optional<ApiError> ParseBody(Endpoint endpoint, const Json& body, const ParseContext& context,
                                  ParsedRequest* out);
std::optional<ApiError> ParseRequest(Endpoint endpoint, std::string_view body, const ParseContext& context,
                                     ParsedRequest* out);

}  // namespace spillway::gateway
