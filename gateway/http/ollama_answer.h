// Answers in Ollama's form: one JSON object a line, or one alone.
#pragma once

#include <string>
#include <utility>

#include "gateway/http/answer_format.h"

namespace spillway::gateway {

// {"error": "…"}, with the status and the headers of the OpenAI error.
HttpResponse OllamaError(const ApiError& error);
// The answer to a request without a prompt: the model is there.
HttpResponse OllamaLoaded(const std::string& model, bool chat);
// RFC 3339 with nanoseconds, UTC.
std::string OllamaTime(int64_t unix_nanoseconds);

class OllamaAnswer : public AnswerFormat {
 public:
  OllamaAnswer(std::string model, bool chat) : model_(std::move(model)), chat_(chat) {}

  std::string_view StreamType() const override { return "application/x-ndjson"; }
  std::string Open(uint32_t) override { return ""; }
  std::string Delta(uint32_t index, const AnswerChoice& choice, const OutputDelta& delta) override;
  std::string Close(uint32_t index, const AnswerChoice& choice) override;
  std::string End(std::span<const AnswerChoice> choices, const GenerationSummary& summary) override;
  std::string_view Filler() const override { return ""; }  // clients parse every line
  std::string StreamError(const ApiError& error) override;
  HttpResponse Whole(std::span<const AnswerChoice> choices, const GenerationSummary& summary) override;
  HttpResponse Error(const ApiError& error) override { return OllamaError(error); }

 private:
  const std::string model_;
  const bool chat_;
};

}  // namespace spillway::gateway
