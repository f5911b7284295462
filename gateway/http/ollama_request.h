// Bodies of Ollama's /api/chat and /api/generate as requests of our own: each field is translated into the
// OpenAI field of the same meaning and read by the same reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/api_error.h"
#include "gateway/http/openai_request.h"

namespace spillway::gateway {

struct OllamaRequest {
  bool chat = false;         // /api/chat, otherwise /api/generate
  std::string model;         // as the client called it
  bool load_only = false;    // no prompt: the client wants the model in memory, which it is
  ParsedRequest generation;  // unless load_only
};

// `out->chat` is set by the caller. The error's message names fields as Ollama does.
std::optional<ApiError> ParseOllamaRequest(std::string_view text, const ParseContext& context,
                                           OllamaRequest* out);

}  // namespace spillway::gateway
