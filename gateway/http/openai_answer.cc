#include "gateway/http/openai_answer.h"

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

// The delta of a chat's chunk. Calls are counted by what the choice holds.
Json ChatDelta(const AnswerChoice& choice, const OutputDelta& delta) {
  switch (delta.kind) {
    case OutputDelta::Kind::kContent:
      return {{"content", delta.text}};
    case OutputDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case OutputDelta::Kind::kCall:
    case OutputDelta::Kind::kArguments:
      break;
  }
  const AnswerCall& last = choice.calls.back();
  Json call = {{"index", choice.calls.size() - 1}};
  if (delta.kind == OutputDelta::Kind::kCall) {
    call["id"] = last.id;
    call["type"] = "function";
    call["function"] = {{"name", last.name}, {"arguments", ""}};
  } else {
    call["function"] = {{"arguments", delta.text}};
  }
  return {{"tool_calls", Json::array({call})}};
}

Json ChatMessage(const AnswerChoice& choice) {
  Json message{{"role", "assistant"}};
  message["content"] = choice.text;
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (choice.calls.empty()) return message;
  if (choice.text.empty()) message["content"] = nullptr;
  Json calls = Json::array();
  for (const AnswerCall& call : choice.calls) {
    calls.push_back({{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace

std::string OpenAiAnswer::Chunk(Json chunk) const {
  // OpenAI's streams carry the member in every chunk once it was asked for.
  if (include_usage_ && !chunk.contains("usage")) chunk["usage"] = nullptr;
  return ServerSentEvent(chunk);
}

std::string OpenAiAnswer::Open(uint32_t index) {
  if (!IsChat()) return "";
  return Chunk(ChoiceChunk(identity_, index, Json{{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
}

std::string OpenAiAnswer::Delta(uint32_t index, const AnswerChoice& choice, const OutputDelta& delta) {
  Json logprobs = LogprobsJson(identity_.endpoint, tokenizer_, choice.tokens);
  Json content = IsChat() ? ChatDelta(choice, delta) : Json(delta.text);
  return Chunk(ChoiceChunk(identity_, index, std::move(content), std::move(logprobs), nullptr));
}

std::string OpenAiAnswer::Close(uint32_t index, const AnswerChoice& choice) {
  std::string before = held_.is_null() ? "" : Chunk(std::move(held_));
  held_ = ChoiceChunk(identity_, index, IsChat() ? Json::object() : Json(""), nullptr,
                      std::string(choice.finish));
  return before;
}

std::string OpenAiAnswer::End(std::span<const AnswerChoice>, const GenerationSummary& summary) {
  std::string text;
  Json last = std::move(held_);
  if (include_usage_) {
    text = Chunk(std::move(last));
    last = UsageChunk(identity_, summary);
  }
  last["timings"] = TimingsJson(summary);
  text += Chunk(std::move(last));
  text += kStreamDone;
  return text;
}

HttpResponse OpenAiAnswer::Whole(std::span<const AnswerChoice> choices, const GenerationSummary& summary) {
  Json list = Json::array();
  for (const AnswerChoice& choice : choices) {
    Json logprobs = LogprobsJson(identity_.endpoint, tokenizer_, choice.tokens);
    list.push_back(ChoiceJson(identity_, static_cast<uint32_t>(list.size()), /*whole=*/true,
                              IsChat() ? ChatMessage(choice) : Json(choice.text), std::move(logprobs),
                              std::string(choice.finish)));
  }
  HttpResponse response;
  response.body =
      WholeAnswer(identity_, std::move(list), summary).dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

}  // namespace spillway::gateway
