// The forms in which one generation is answered: OpenAI's and Ollama's. A call tells a format what happened;
// the format gives the bytes. Knows nothing of tokens in flight, sockets or requests.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/api_error.h"
#include "gateway/http/exchange.h"
#include "gateway/http/text_stream.h"
#include "gateway/scheduler/scheduler.h"
#include "gateway/text/output_parser.h"

namespace spillway::gateway {

struct AnswerCall {
  std::string id, name, arguments;  // arguments: JSON text, as the model wrote it
};

// One of a request's n choices, as far as it has come.
struct AnswerChoice {
  std::string text, reasoning;
  std::vector<AnswerCall> calls;
  std::vector<TokenRecord> tokens;  // with logprobs, where they were asked for; of a stream: not sent yet
  std::string_view finish;          // stop | length | tool_calls; "" while it runs
};

struct GenerationSummary {
  uint32_t prompt_tokens = 0;
  uint32_t generated_tokens = 0;
  GenerationTimings timings;
  double ttft = 0;   // seconds from the request's arrival to its first token
  double total = 0;  // and to its end
};

// Confined to one call. Each string is written to the stream as it is; "" = nothing.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual std::string_view StreamType() const = 0;
  virtual std::string Open(uint32_t index) = 0;  // before anything else of a choice
  // `choice` already holds the delta; its tokens are those that go with it.
  virtual std::string Delta(uint32_t index, const AnswerChoice& choice, const OutputDelta& delta) = 0;
  virtual std::string Close(uint32_t index, const AnswerChoice& choice) = 0;
  virtual std::string End(std::span<const AnswerChoice> choices, const GenerationSummary& summary) = 0;
  virtual std::string_view Filler() const = 0;  // bytes that mean nothing in a stream
  virtual std::string StreamError(const ApiError& error) = 0;

  virtual HttpResponse Whole(std::span<const AnswerChoice> choices, const GenerationSummary& summary) = 0;
  virtual HttpResponse Error(const ApiError& error) = 0;
};

}  // namespace spillway::gateway
