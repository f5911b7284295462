// The prompt of a request as token ids: chat messages through the model's template, or text or ids as they
// are. Knows nothing of sampling or of how answers are sent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "gateway/http/api_error.h"
#include "gateway/http/openai_request.h"

namespace spillway::gateway {

// From `messages` (and add_generation_prompt, chat_template_kwargs).
std::optional<ApiError> ReadChatPrompt(const nlohmann::json& body, const ParseContext& context,
                                       std::vector<int32_t>* prompt);

// From `prompt`: text, [text], ids or [ids].
std::optional<ApiError> ReadCompletionPrompt(const nlohmann::json& body, const ParseContext& context,
                                             std::vector<int32_t>* prompt);

}  // namespace spillway::gateway
