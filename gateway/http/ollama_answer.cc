#include "gateway/http/ollama_answer.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNanoseconds = 1'000'000'000;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

int64_t Nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

Json Head(const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {{"model", model},
          {"created_at", OllamaTime(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count())}};
}

// Calls whose arguments the model did not finish are none: Ollama's clients are given objects only.
Json CallsJson(const AnswerChoice& choice) {
  Json calls = Json::array();
  for (const AnswerCall& call : choice.calls) {
    Json arguments = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
    if (!arguments.is_object()) continue;
    calls.push_back({{"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
  }
  return calls;
}

// What an object says: content, thinking and calls.
void Say(bool chat, const std::string& text, const std::string& thinking, Json calls, Json* object) {
  if (!chat) {
    (*object)["response"] = text;
    if (!thinking.empty()) (*object)["thinking"] = thinking;
    return;
  }
  Json message{{"role", "assistant"}, {"content", text}};
  if (!thinking.empty()) message["thinking"] = thinking;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  (*object)["message"] = std::move(message);
}

void Conclude(std::span<const AnswerChoice> choices, const GenerationSummary& summary, Json* object) {
  (*object)["done"] = true;
  (*object)["done_reason"] = choices.front().finish == "length" ? "length" : "stop";
  (*object)["total_duration"] = Nanoseconds(summary.total);
  (*object)["load_duration"] = Nanoseconds(summary.timings.queue);  // the model is there: only the queue
  (*object)["prompt_eval_count"] = summary.prompt_tokens;
  (*object)["prompt_eval_duration"] = Nanoseconds(summary.timings.prefill);
  (*object)["eval_count"] = summary.generated_tokens;
  (*object)["eval_duration"] = Nanoseconds(summary.timings.decode);
}

}  // namespace

std::string OllamaTime(int64_t unix_nanoseconds) {
  const std::time_t seconds = unix_nanoseconds / kNanoseconds;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:09}Z", text, unix_nanoseconds % kNanoseconds);
}

HttpResponse OllamaError(const ApiError& error) {
  HttpResponse response = ErrorResponse(error);
  response.body = Dump({{"error", error.message}});
  return response;
}

HttpResponse OllamaLoaded(const std::string& model, bool chat) {
  Json object = Head(model);
  Say(chat, "", "", Json::array(), &object);
  object["done"] = true;
  object["done_reason"] = "load";
  HttpResponse response;
  response.body = Dump(object);
  return response;
}

std::string OllamaAnswer::Delta(uint32_t, const AnswerChoice&, const OutputDelta& delta) {
  if (delta.kind != OutputDelta::Kind::kContent && delta.kind != OutputDelta::Kind::kReasoning) return "";
  const bool thinking = delta.kind == OutputDelta::Kind::kReasoning;
  Json object = Head(model_);
  Say(chat_, thinking ? "" : delta.text, thinking ? delta.text : "", Json::array(), &object);
  object["done"] = false;
  return Dump(object) + "\n";
}

std::string OllamaAnswer::Close(uint32_t, const AnswerChoice& choice) {
  Json calls = CallsJson(choice);
  if (calls.empty() || !chat_) return "";
  Json object = Head(model_);
  Say(chat_, "", "", std::move(calls), &object);
  object["done"] = false;
  return Dump(object) + "\n";
}

std::string OllamaAnswer::End(std::span<const AnswerChoice> choices, const GenerationSummary& summary) {
  Json object = Head(model_);
  Say(chat_, "", "", Json::array(), &object);
  Conclude(choices, summary, &object);
  return Dump(object) + "\n";
}

std::string OllamaAnswer::StreamError(const ApiError& error) {
  return Dump({{"error", error.message}}) + "\n";
}

HttpResponse OllamaAnswer::Whole(std::span<const AnswerChoice> choices, const GenerationSummary& summary) {
  Json object = Head(model_);
  const AnswerChoice& choice = choices.front();
  Say(chat_, choice.text, choice.reasoning, CallsJson(choice), &object);
  Conclude(choices, summary, &object);
  HttpResponse response;
  response.body = Dump(object);
  return response;
}

}  // namespace spillway::gateway
