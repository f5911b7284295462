#include "gateway/http/openai_response.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "gateway/http/bounded_json.h"

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; OpenAI writes this for a token that cannot be drawn.
constexpr double kImpossibleLogprob = -9999.0;

bool IsChat(const ResponseIdentity& identity) { return identity.endpoint == Endpoint::kChatCompletions; }

double FiniteLogprob(float logprob) { return std::isfinite(logprob) ? logprob : kImpossibleLogprob; }

// A token as text; the bytes of a part of a character are spelt out, so that distinct tokens stay distinct.
std::string TokenLabel(std::string_view bytes) {
  if (IsValidUtf8(bytes)) return std::string(bytes);
  std::string label = "bytes:";
  for (const char c : bytes) label += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return label;
}

Json ChatLogprob(const Tokenizer& tokenizer, const TokenLogprob& token) {
  const std::string bytes = tokenizer.TokenBytes(token.token, /*special=*/true);
  Json values = Json::array();
  for (const char c : bytes) values.push_back(static_cast<uint8_t>(c));
  return {
      {"token", TokenLabel(bytes)}, {"logprob", FiniteLogprob(token.logprob)}, {"bytes", std::move(values)}};
}

Json ChatLogprobs(const Tokenizer& tokenizer, std::span<const TokenRecord> tokens) {
  Json content = Json::array();
  for (const TokenRecord& record : tokens) {
    Json entry = ChatLogprob(tokenizer, record.token);
    Json top = Json::array();
    for (const TokenLogprob& alternative : record.top) top.push_back(ChatLogprob(tokenizer, alternative));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogprobs(const Tokenizer& tokenizer, std::span<const TokenRecord> tokens) {
  Json labels = Json::array();
  Json logprobs = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  for (const TokenRecord& record : tokens) {
    labels.push_back(TokenLabel(tokenizer.TokenBytes(record.token.token, /*special=*/true)));
    logprobs.push_back(FiniteLogprob(record.token.logprob));
    Json top = Json::object();
    for (const TokenLogprob& alternative : record.top) {
      top[TokenLabel(tokenizer.TokenBytes(alternative.token, /*special=*/true))] =
          FiniteLogprob(alternative.logprob);
    }
    tops.push_back(record.top.empty() ? Json(nullptr) : std::move(top));
    offsets.push_back(record.text_offset);
  }
  return {{"tokens", std::move(labels)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json Head(const ResponseIdentity& identity, std::string_view object) {
  Json head;
  head["id"] = identity.id;
  head["object"] = object;
  head["created"] = identity.created_unix_seconds;
  head["model"] = identity.model;
  head["system_fingerprint"] = identity.system_fingerprint;
  return head;
}

Json ChunkHead(const ResponseIdentity& identity) {
  return Head(identity, IsChat(identity) ? "chat.completion.chunk" : "text_completion");
}

double PerSecond(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

}  // namespace

std::string ServerSentEvent(const Json& data) {
  return fmt::format("data: {}\n\n", data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json UsageJson(const GenerationSummary& summary) {
  Json usage;
  usage["prompt_tokens"] = summary.prompt_tokens;
  usage["completion_tokens"] = summary.generated_tokens;
  usage["total_tokens"] = uint64_t{summary.prompt_tokens} + summary.generated_tokens;
  usage["prompt_tokens_details"] = Json{{"cached_tokens", 0}};
  return usage;
}

Json TimingsJson(const GenerationSummary& summary) {
  const GenerationTimings& timings = summary.timings;
  // The decode time begins with the first token, so it covers one token less.
  const double decoded = summary.generated_tokens > 0 ? summary.generated_tokens - 1.0 : 0;
  Json json;
  json["queue_ms"] = timings.queue * 1e3;
  json["prompt_n"] = summary.prompt_tokens;
  json["prompt_ms"] = timings.prefill * 1e3;
  json["prompt_per_second"] = PerSecond(summary.prompt_tokens, timings.prefill);
  json["predicted_n"] = summary.generated_tokens;
  json["predicted_ms"] = timings.decode * 1e3;
  json["predicted_per_second"] = PerSecond(decoded, timings.decode);
  json["ttft_ms"] = summary.ttft * 1e3;
  return json;
}

Json LogprobsJson(Endpoint endpoint, const Tokenizer& tokenizer, std::span<const TokenRecord> tokens) {
  if (tokens.empty()) return nullptr;
  return endpoint == Endpoint::kChatCompletions ? ChatLogprobs(tokenizer, tokens)
                                                : CompletionLogprobs(tokenizer, tokens);
}

Json ChoiceJson(const ResponseIdentity& identity, uint32_t index, bool whole, Json content, Json logprobs,
                Json finish_reason) {
  Json choice;
  choice["index"] = index;
  const char* name = whole ? "message" : "delta";
  choice[IsChat(identity) ? name : "text"] = std::move(content);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish_reason);
  return choice;
}

Json ChoiceChunk(const ResponseIdentity& identity, uint32_t index, Json content, Json logprobs,
                 Json finish_reason) {
  Json chunk = ChunkHead(identity);
  chunk["choices"] = Json::array();
  chunk["choices"].push_back(ChoiceJson(identity, index, /*whole=*/false, std::move(content),
                                        std::move(logprobs), std::move(finish_reason)));
  return chunk;
}

Json UsageChunk(const ResponseIdentity& identity, const GenerationSummary& summary) {
  Json chunk = ChunkHead(identity);
  chunk["choices"] = Json::array();
  chunk["usage"] = UsageJson(summary);
  return chunk;
}

Json WholeAnswer(const ResponseIdentity& identity, Json choices, const GenerationSummary& summary) {
  Json answer = Head(identity, IsChat(identity) ? "chat.completion" : "text_completion");
  answer["choices"] = std::move(choices);
  answer["usage"] = UsageJson(summary);
  answer["timings"] = TimingsJson(summary);
  return answer;
}

}  // namespace spillway::gateway
