// One generation from submission to the end of its answer: token events in, a whole answer or server-sent
// events out. A client that goes away cancels it. Knows no sockets.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/event_mailbox.h"
#include "gateway/http/exchange.h"
#include "gateway/http/openai_request.h"
#include "gateway/http/openai_response.h"
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
  };

  GenerationCall(const Parts& parts, ParsedRequest request, ResponseIdentity identity, RequestRecord record,
                 const std::shared_ptr<Exchange>& exchange);
  ~GenerationCall() override;

  // The backend's refusal, if any; then nothing is written or published here.
  absl::Status Submit();

  void Flushed() override;
  void Completed() override;
  std::string_view Filler() const override { return ":\n\n"; }  // a comment of server-sent events

 private:
  enum class State : uint8_t {
    kNew,        // not submitted, or refused
    kRunning,    // the backend works for it
    kAnswered,   // the whole response was written, not yet flushed
    kPublished,  // over
  };

  void OnEvents(std::vector<TimedEvent> events);
  void OnToken(const TimedEvent& timed);
  void OnDone(const GenerationEvent& event);
  void Fail(const absl::Status& status);
  void ObserveToken(std::chrono::steady_clock::time_point at);
  void Deliver(TextPiece piece);
  void BeginStream();
  void SendChunk(nlohmann::ordered_json chunk);
  void Answer(std::string_view finish, const GenerationSummary& summary);
  void EndStream(std::string_view finish, const GenerationSummary& summary);

  const Parts parts_;
  ParsedRequest request_;
  const ResponseIdentity identity_;
  RequestRecord record_;
  Exchange& exchange_;  // owns this call
  TextStream text_stream_;
  const std::shared_ptr<EventMailbox> mailbox_;

  State state_ = State::kNew;
  RequestId id_ = 0;
  bool streaming_ = false;  // the head of the stream was written
  bool first_token_flushed_ = false;
  uint32_t tokens_ = 0;  // drawn for the answer so far
  std::chrono::steady_clock::time_point first_token_at_;
  std::chrono::steady_clock::time_point last_token_at_;
  std::string text_;                   // of a whole answer
  std::vector<TokenRecord> logprobs_;  // of a whole answer
};

}  // namespace spillway::gateway
