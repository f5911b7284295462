// The bodies of answers in OpenAI's shapes: whole answers, stream chunks, usage, logprobs, timings and
// server-sent events. Pure functions of what happened.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"
#include "gateway/http/answer_format.h"
#include "gateway/http/openai_request.h"
#include "gateway/http/text_stream.h"

namespace spillway::gateway {

// What every body of one request has in common.
struct ResponseIdentity {
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::string id;
  int64_t created_unix_seconds = 0;
  std::string model;
  std::string system_fingerprint;
};

// "data: …\n\n"
std::string ServerSentEvent(const nlohmann::ordered_json& data);
inline constexpr std::string_view kStreamDone = "data: [DONE]\n\n";

nlohmann::ordered_json UsageJson(const GenerationSummary& summary);
nlohmann::ordered_json TimingsJson(const GenerationSummary& summary);

// logprobs of a choice, chat or completions form; null when there are none to tell.
nlohmann::ordered_json LogprobsJson(Endpoint endpoint, const Tokenizer& tokenizer,
                                    std::span<const TokenRecord> tokens);

// One choice: `content` is its delta, its message (`whole`) or its text.
nlohmann::ordered_json ChoiceJson(const ResponseIdentity& identity, uint32_t index, bool whole,
                                  nlohmann::ordered_json content, nlohmann::ordered_json logprobs,
                                  nlohmann::ordered_json finish_reason);

// Chunks of a stream: with one choice, and with the usage where it was asked for.
nlohmann::ordered_json ChoiceChunk(const ResponseIdentity& identity, uint32_t index,
                                   nlohmann::ordered_json content, nlohmann::ordered_json logprobs,
                                   nlohmann::ordered_json finish_reason);
nlohmann::ordered_json UsageChunk(const ResponseIdentity& identity, const GenerationSummary& summary);

nlohmann::ordered_json WholeAnswer(const ResponseIdentity& identity, nlohmann::ordered_json choices,
                                   const GenerationSummary& summary);

}  // namespace spillway::gateway
