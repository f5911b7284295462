// See chat_client.h.
#include "cli/run/chat_client.h"

#include <chrono>

#include "engine/base/status.h"
#include "telemetry/http_client.h"

namespace spillway::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kIdle{600'000};  // a long prompt on a slow CPU is silent for minutes

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// The message of an error body {"error":{"message":...}}, else the body.
std::string ErrorText(const std::string& body) {
  const Json error = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (error.is_object() && error.contains("error") && error["error"].is_object()) {
    return error["error"].value("message", body);
  }
  return body;
}

absl::Status ErrorOf(const telemetry::HttpAnswer& answer) {
  const Json body = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer code("/error/code");
  const bool too_long = body.is_object() && body.contains(code) && body[code] == "context_length_exceeded";
  return MakeStatus(too_long ? absl::StatusCode::kOutOfRange : absl::StatusCode::kUnavailable,
                    "the API answers {}: {}", answer.status, ErrorText(answer.body));
}

class Listener {
 public:
  Listener(Clock::time_point begin, const std::function<bool(std::string_view)>& on_text)
      : begin_(begin), on_text_(on_text) {}

  bool OnEvent(std::string_view data) {
    if (data == "[DONE]") {
      done_ = true;
      return false;
    }
    const Json event = Json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) return true;
    if (event.contains("error")) {
      error_ = ErrorText(std::string(data));
      return false;
    }
    TakeUsage(event);
    if (!event.contains("choices") || !event["choices"].is_array() || event["choices"].empty()) return true;
    const Json& choice = event["choices"][0];
    if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) {
      answer_.finish_reason = choice["finish_reason"].get<std::string>();
    }
    if (!choice.contains("delta") || !choice["delta"].is_object() || !choice["delta"].contains("content"))
      return true;
    const Json& content = choice["delta"]["content"];
    return !content.is_string() || TakeText(content.get<std::string>());
  }

  absl::StatusOr<Answer> Finish() {
    if (!error_.empty()) return Unavailable("{}", error_);
    if (!done_) return Unavailable("the answer broke off");
    if (answer_.generated_tokens > 1 && last_ > first_) {
      answer_.tokens_per_second = static_cast<double>(answer_.generated_tokens - 1) / Seconds(last_ - first_);
    }
    return answer_;
  }

 private:
  void TakeUsage(const Json& event) {
    if (!event.contains("usage") || !event["usage"].is_object()) return;
    answer_.prompt_tokens = event["usage"].value("prompt_tokens", uint64_t{0});
    answer_.generated_tokens = event["usage"].value("completion_tokens", uint64_t{0});
  }

  bool TakeText(const std::string& text) {
    if (text.empty()) return true;
    last_ = Clock::now();
    if (answer_.text.empty()) {
      first_ = last_;
      answer_.ttft_seconds = Seconds(first_ - begin_);
    }
    answer_.text += text;
    return on_text_(text);
  }

  const Clock::time_point begin_;
  const std::function<bool(std::string_view)>& on_text_;
  Clock::time_point first_, last_;
  Answer answer_;
  std::string error_;
  bool done_ = false;
};

}  // namespace

absl::StatusOr<Answer> Ask(const std::string& api_address, const Json& messages, const AskOptions& options,
                           const std::function<bool(std::string_view)>& on_text) {
  Json body = {{"messages", messages}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  body.update(options.sampling);
  if (options.max_tokens > 0) body["max_tokens"] = options.max_tokens;
  Listener listener(Clock::now(), on_text);
  SPILLWAY_ASSIGN_OR_RETURN(
      const telemetry::HttpAnswer answer,
      telemetry::HttpPostEvents(api_address, "/v1/chat/completions",
                                body.dump(-1, ' ', false, Json::error_handler_t::replace), kIdle,
                                [&listener](std::string_view data) { return listener.OnEvent(data); }));
  if (answer.status != 200) return ErrorOf(answer);
  return listener.Finish();
}

}  // namespace spillway::cli
