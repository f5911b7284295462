// The prompt of a request as token ids: chat messages through the model's template, or text or ids as they
// are. Knows nothing of sampling or of how answers are sent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "gateway/http/api_error.h"
#include "gateway/http/bounded_json.h"
#include "gateway/http/openai_request.h"

namespace spillway::gateway {

// From `messages`, `tools` and what goes with them: the prompt's text, before its tokens; sets the tools and
// the forced beginning of `out`.
std::optional<ApiError> RenderChat(const Json& body, const ParseContext& context, ParsedRequest* out,
                                   std::string* text);

// The same as tokens, with how the answer is to be read.
std::optional<ApiError> ReadChatPrompt(const Json& body, const ParseContext& context, ParsedRequest* out);

// From `prompt`: text, [text], ids or [ids].
std::optional<ApiError> ReadCompletionPrompt(const Json& body, const ParseContext& context,
                                             std::vector<int32_t>* prompt);

}  // namespace spillway::gateway
