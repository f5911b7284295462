// Messages and tools of a chat request, checked and brought into the form that published templates read.
// Knows nothing of prompts and tokens.
#pragma once

#include <optional>
#include <string>

#include "gateway/http/api_error.h"
#include "gateway/http/bounded_json.h"
#include "gateway/http/openai_request.h"

namespace spillway::gateway {

inline constexpr size_t kMaxTools = 128;

// `messages` → a template's messages. A call's arguments become an object, or text where the template wants
// it.
std::optional<ApiError> ReadMessages(const Json& body, const ServedModel& model, Json* messages);

// tools, tool_choice, parallel_tool_calls → how the answer is read, what is written for the model, and in
// `tools` what the template is given: null when no tool may be called.
void ReadTools(const ServedModel& model, FieldReader& fields, ParsedRequest* out, Json* tools);

}  // namespace spillway::gateway
