#include "gateway/http/generation_call.h"

#include <iterator>
#include <utility>

namespace spillway::gateway {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

GenerationCall::GenerationCall(const Parts& parts, ParsedRequest request, ResponseIdentity identity,
                               RequestRecord record, const std::shared_ptr<Exchange>& exchange)
    : parts_(parts),
      request_(std::move(request)),
      identity_(std::move(identity)),
      record_(std::move(record)),
      exchange_(*exchange),
      text_stream_(parts.tokenizer, std::move(request_.stop), request_.generation.sampling.logprobs,
                   request_.generation.prompt),
      mailbox_(std::make_shared<EventMailbox>(
          exchange->poster(), exchange,
          [this](std::vector<TimedEvent> events) { OnEvents(std::move(events)); })) {
  record_.stream = request_.stream;
  record_.prompt_tokens = static_cast<uint32_t>(request_.generation.prompt.size());
}

GenerationCall::~GenerationCall() {
  mailbox_->Close();
  if (state_ == State::kRunning) parts_.backend.Cancel(id_);
  if (state_ != State::kRunning && state_ != State::kAnswered) return;
  // An answer that was complete stays what it was, also when its reader left before we noticed the last
  // byte's end.
  if (state_ == State::kRunning) {
    record_.outcome = "cancelled";
    record_.finish = "cancelled";
    record_.generated_tokens = tokens_;
  }
  Publish(record_, parts_.metrics);
}

absl::Status GenerationCall::Submit() {
  const absl::StatusOr<RequestId> id =
      parts_.backend.Submit(std::move(request_.generation),
                            [mailbox = mailbox_](const GenerationEvent& event) { mailbox->Push(event); });
  if (!id.ok()) return id.status();
  id_ = *id;
  state_ = State::kRunning;
  return absl::OkStatus();
}

void GenerationCall::OnEvents(std::vector<TimedEvent> events) {
  for (const TimedEvent& timed : events) {
    if (state_ != State::kRunning) return;
    if (timed.event.kind == GenerationEvent::Kind::kToken) {
      OnToken(timed);
    } else {
      OnDone(timed.event);
    }
  }
}

void GenerationCall::OnToken(const TimedEvent& timed) {
  if (text_stream_.stopped()) return;  // drawn before the cancellation arrived
  ObserveToken(timed.at);
  BeginStream();
  Deliver(text_stream_.Add(timed.event));
  // A stop string ends the text; the backend's last event still brings the timings.
  if (text_stream_.stopped()) parts_.backend.Cancel(id_);
}

void GenerationCall::ObserveToken(Clock::time_point at) {
  if (tokens_ == 0) {
    first_token_at_ = at;
    record_.ttft = SecondsBetween(record_.arrival, at);
    if (!request_.stream) parts_.metrics.FirstToken(record_.ttft);
  } else {
    parts_.metrics.InterToken(SecondsBetween(last_token_at_, at));
  }
  last_token_at_ = at;
  ++tokens_;
}

void GenerationCall::OnDone(const GenerationEvent& event) {
  const bool stopped = text_stream_.stopped();
  if (!stopped && event.finish == FinishReason::kError) return Fail(event.error);
  if (!stopped && event.finish == FinishReason::kCancelled) {
    return Fail(absl::UnavailableError("the server cancelled this request"));
  }
  Deliver(text_stream_.Finish());
  record_.finish =
      stopped || text_stream_.stopped() || event.finish == FinishReason::kStop ? "stop" : "length";
  GenerationSummary summary;
  summary.prompt_tokens = record_.prompt_tokens;
  summary.generated_tokens = stopped ? tokens_ : event.generated_tokens;
  summary.timings = event.timings;
  summary.ttft = record_.ttft;
  record_.generated_tokens = summary.generated_tokens;
  if (tokens_ > 1)
    parts_.metrics.TimePerOutputToken(SecondsBetween(first_token_at_, last_token_at_) / (tokens_ - 1));
  state_ = State::kAnswered;
  if (request_.stream) {
    EndStream(record_.finish, summary);
  } else {
    Answer(record_.finish, summary);
  }
}

void GenerationCall::Fail(const absl::Status& status) {
  const ApiError error = ErrorFromStatus(status);
  state_ = State::kAnswered;
  record_.finish = "error";
  record_.outcome = "error";
  record_.generated_tokens = tokens_;
  if (!streaming_) {
    record_.status = error.status;
    exchange_.Respond(ErrorResponse(error));
    return;
  }
  exchange_.Write(ServerSentEvent(ErrorBody(error)));
  exchange_.EndStream(/*close_connection=*/true);
}

void GenerationCall::Deliver(TextPiece piece) {
  if (piece.empty()) return;
  if (request_.stream) {
    BeginStream();
    SendChunk(
        TextChunk(identity_, piece.text, LogprobsJson(identity_.endpoint, parts_.tokenizer, piece.tokens)));
    return;
  }
  text_ += piece.text;
  std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(logprobs_));
}

// The head waits for the first token, so that a request which fails in the queue is answered with its true
// status.
void GenerationCall::BeginStream() {
  if (!request_.stream || streaming_) return;
  streaming_ = true;
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  exchange_.StartStream(std::move(head));
  if (identity_.endpoint == Endpoint::kChatCompletions) SendChunk(RoleChunk(identity_));
}

void GenerationCall::SendChunk(Json chunk) {
  // OpenAI's streams carry the member in every chunk once it was asked for.
  if (request_.include_usage && !chunk.contains("usage")) chunk["usage"] = nullptr;
  exchange_.Write(ServerSentEvent(chunk));
}

void GenerationCall::EndStream(std::string_view finish, const GenerationSummary& summary) {
  BeginStream();
  Json last = FinishChunk(identity_, finish);
  if (request_.include_usage) {
    SendChunk(std::move(last));
    last = UsageChunk(identity_, summary);
  }
  last["timings"] = TimingsJson(summary);
  SendChunk(std::move(last));
  exchange_.Write(kStreamDone);
  exchange_.EndStream(/*close_connection=*/false);
}

void GenerationCall::Answer(std::string_view finish, const GenerationSummary& summary) {
  Json logprobs = LogprobsJson(identity_.endpoint, parts_.tokenizer, logprobs_);
  const Json answer = WholeAnswer(identity_, text_, std::move(logprobs), finish, summary);
  HttpResponse response;
  response.body = answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  exchange_.Respond(std::move(response));
}

void GenerationCall::Flushed() {
  if (!request_.stream || first_token_flushed_ || tokens_ == 0) return;
  first_token_flushed_ = true;
  parts_.metrics.FirstToken(SecondsBetween(record_.arrival, Clock::now()));
}

void GenerationCall::Completed() {
  Flushed();
  if (state_ != State::kAnswered) return;
  state_ = State::kPublished;
  Publish(record_, parts_.metrics);
}

}  // namespace spillway::gateway
