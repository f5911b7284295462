// Answers in OpenAI's form: server-sent events or one body.
#pragma once

#include <string>
#include <utility>

#include "gateway/http/answer_format.h"
#include "gateway/http/openai_response.h"

namespace spillway::gateway {

// Borrows the tokenizer.
class OpenAiAnswer : public AnswerFormat {
 public:
  OpenAiAnswer(ResponseIdentity identity, const Tokenizer& tokenizer, bool include_usage)
      : identity_(std::move(identity)), tokenizer_(tokenizer), include_usage_(include_usage) {}

  std::string_view StreamType() const override { return "text/event-stream; charset=utf-8"; }
  std::string Open(uint32_t index) override;
  std::string Delta(uint32_t index, const AnswerChoice& choice, const OutputDelta& delta) override;
  std::string Close(uint32_t index, const AnswerChoice& choice) override;
  std::string End(std::span<const AnswerChoice> choices, const GenerationSummary& summary) override;
  std::string_view Filler() const override { return ":\n\n"; }  // a comment of server-sent events
  std::string StreamError(const ApiError& error) override { return ServerSentEvent(ErrorBody(error)); }
  HttpResponse Whole(std::span<const AnswerChoice> choices, const GenerationSummary& summary) override;
  HttpResponse Error(const ApiError& error) override { return ErrorResponse(error); }

 private:
  std::string Chunk(nlohmann::ordered_json chunk) const;
  bool IsChat() const { return identity_.endpoint == Endpoint::kChatCompletions; }

  const ResponseIdentity identity_;
  const Tokenizer& tokenizer_;
  const bool include_usage_;
  nlohmann::ordered_json held_;  // the last finish: timings go with it where no usage follows
};

}  // namespace spillway::gateway
