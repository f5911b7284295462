// /tokenize, /detokenize and /apply-template, in the shapes of llama.cpp's server: what the model reads,
// without a generation. Pure functions of body and model.
#pragma once

#include <string_view>

#include "gateway/http/exchange.h"
#include "gateway/http/openai_request.h"

namespace spillway::gateway {

// Text past this is refused: tokenizing runs on the thread that serves other connections too.
inline constexpr size_t kMaxTokenizeBytes = 1 << 20;

HttpResponse Tokenize(std::string_view body, const ServedModel& model);
HttpResponse Detokenize(std::string_view body, const ServedModel& model);
HttpResponse ApplyTemplate(std::string_view body, const ParseContext& context);

}  // namespace spillway::gateway
