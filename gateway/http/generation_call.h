// One request from submission to the end of its answer: token events of its choices in, a whole answer or a
// stream out, in the form of an AnswerFormat. A client that goes away cancels it. Knows no sockets.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/answer_format.h"
#include "gateway/http/event_mailbox.h"
#include "gateway/http/exchange.h"
#include "gateway/http/openai_request.h"
#include "gateway/http/request_record.h"
#include "gateway/http/text_stream.h"

namespace spillway::gateway {

// Confined to the exchange's executor. Borrows the backend, the tokenizer and the metrics, which outlive it.
class GenerationCall : public Call {
 public:
  struct Parts {
    GenerationBackend& backend;
    const Tokenizer& tokenizer;
    telemetry::GatewayMetrics& metrics;
    const std::vector<int32_t>* marker_tokens = nullptr;  // control tokens that are part of the text
  };

  GenerationCall(const Parts& parts, ParsedRequest request, std::unique_ptr<AnswerFormat> format,
                 RequestRecord record, const std::shared_ptr<Exchange>& exchange);
  ~GenerationCall() override;

  // The backend's refusal, if any; then nothing is written or published here.
  absl::Status Submit();

  void Flushed() override;
  void Completed() override;
  std::string_view Filler() const override { return format_->Filler(); }

 private:
  enum class State : uint8_t {
    kNew,        // not submitted, or refused
    kRunning,    // the backend works for it
    kAnswered,   // the whole response was written, not yet flushed
    kPublished,  // over
  };

  struct Choice;  // one of n

  void OnEvents(Choice& choice, std::vector<TimedEvent> events);
  void OnToken(Choice& choice, const TimedEvent& timed);
  void OnDone(Choice& choice, const GenerationEvent& event);
  void Fail(const absl::Status& status);
  void CancelRunning();
  void ObserveToken(Choice& choice, std::chrono::steady_clock::time_point at);
  void Begin(Choice& choice);
  void Deliver(Choice& choice, TextPiece piece);
  void Deliver(Choice& choice, const std::vector<OutputDelta>& deltas);
  void Take(Choice& choice, const OutputDelta& delta);
  void Write(const std::string& bytes);
  void Answer();
  uint32_t Tokens() const;  // drawn so far, by all choices

  const Parts parts_;
  ParsedRequest request_;
  const std::unique_ptr<AnswerFormat> format_;
  RequestRecord record_;
  Exchange& exchange_;  // owns this call

  State state_ = State::kNew;
  bool streaming_ = false;  // the head of the stream was written
  bool first_token_flushed_ = false;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::vector<AnswerChoice> answers_;  // of the choices, in their order
  GenerationTimings timings_;          // the longest of each
};

}  // namespace spillway::gateway
