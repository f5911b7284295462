#include "gateway/http/generation_call.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

namespace spillway::gateway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kDefaultIdLength = 24;

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Letters and digits only: some templates refuse others when the id comes back. Not a secret.
std::string NewCallId(size_t length) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 generator{std::random_device{}()};
  std::string id;
  for (size_t i = 0; i < length; ++i) id += kLetters[generator() % kLetters.size()];
  return id;
}

}  // namespace

struct GenerationCall::Choice {
  Choice(uint32_t index, TextStream text, OutputParser parser)
      : index(index), text(std::move(text)), parser(std::move(parser)) {}
  bool complete() const { return text.stopped() || parser.complete(); }

  const uint32_t index;
  TextStream text;
  OutputParser parser;
  std::shared_ptr<EventMailbox> mailbox;
  RequestId id = 0;
  bool running = false;  // the backend works for it
  bool begun = false;
  uint32_t tokens = 0;  // drawn for the answer so far
  Clock::time_point first_token_at, last_token_at;
};

GenerationCall::GenerationCall(const Parts& parts, ParsedRequest request,
                               std::unique_ptr<AnswerFormat> format, RequestRecord record,
                               const std::shared_ptr<Exchange>& exchange)
    : parts_(parts),
      request_(std::move(request)),
      format_(std::move(format)),
      record_(std::move(record)),
      exchange_(*exchange),
      answers_(request_.n) {
  record_.stream = request_.stream;
  record_.prompt_tokens = static_cast<uint32_t>(request_.generation.prompt.size());
  static const std::vector<int32_t> kNone;
  const std::vector<int32_t>& visible =
      parts.marker_tokens != nullptr && (request_.output.calls || request_.format.MayReason())
          ? *parts.marker_tokens
          : kNone;
  for (uint32_t i = 0; i < request_.n; ++i) {
    choices_.push_back(std::make_unique<Choice>(
        i,
        TextStream(parts.tokenizer, request_.stop, request_.generation.sampling.logprobs,
                   request_.generation.prompt, visible),
        OutputParser(request_.format, request_.output, request_.tools)));
    Choice* choice = choices_.back().get();
    choice->mailbox = std::make_shared<EventMailbox>(
        exchange->poster(), exchange,
        [this, choice](std::vector<TimedEvent> events) { OnEvents(*choice, std::move(events)); });
  }
}

GenerationCall::~GenerationCall() {
  for (const auto& choice : choices_) choice->mailbox->Close();
  CancelRunning();
  if (state_ != State::kRunning && state_ != State::kAnswered) return;
  // An answer that was complete stays what it was, also when its reader left before we noticed the last
  // byte's end.
  if (state_ == State::kRunning) {
    record_.outcome = "cancelled";
    record_.finish = "cancelled";
    record_.generated_tokens = Tokens();
  }
  Publish(record_, parts_.metrics);
}

void GenerationCall::CancelRunning() {
  for (const auto& choice : choices_) {
    if (std::exchange(choice->running, false)) parts_.backend.Cancel(choice->id);
  }
}

uint32_t GenerationCall::Tokens() const {
  uint32_t tokens = 0;
  for (const auto& choice : choices_) tokens += choice->tokens;
  return tokens;
}

absl::Status GenerationCall::Submit() {
  for (const auto& choice : choices_) {
    GenerationRequest generation = request_.generation;
    generation.sampling.choice = choice->index;
    const absl::StatusOr<RequestId> id = parts_.backend.Submit(
        std::move(generation),
        [mailbox = choice->mailbox](const GenerationEvent& event) { mailbox->Push(event); });
    if (!id.ok()) {
      CancelRunning();
      return id.status();
    }
    choice->id = *id;
    choice->running = true;
  }
  request_.generation.prompt.clear();
  state_ = State::kRunning;
  return absl::OkStatus();
}

void GenerationCall::OnEvents(Choice& choice, std::vector<TimedEvent> events) {
  for (const TimedEvent& timed : events) {
    if (state_ != State::kRunning) return;
    if (timed.event.kind == GenerationEvent::Kind::kToken) {
      OnToken(choice, timed);
    } else {
      OnDone(choice, timed.event);
    }
  }
}

void GenerationCall::OnToken(Choice& choice, const TimedEvent& timed) {
  if (choice.complete()) return;  // drawn before the cancellation arrived
  ObserveToken(choice, timed.at);
  Begin(choice);
  Deliver(choice, choice.text.Add(timed.event));
  // A stop string ends the text; the backend's last event still brings the timings.
  if (choice.complete()) parts_.backend.Cancel(choice.id);
}

void GenerationCall::ObserveToken(Choice& choice, Clock::time_point at) {
  if (Tokens() == 0) {
    record_.ttft = SecondsBetween(record_.arrival, at);
    if (!request_.stream) parts_.metrics.FirstToken(record_.ttft);
  }
  if (choice.tokens == 0) {
    choice.first_token_at = at;
  } else {
    parts_.metrics.InterToken(SecondsBetween(choice.last_token_at, at));
  }
  choice.last_token_at = at;
  ++choice.tokens;
}

void GenerationCall::OnDone(Choice& choice, const GenerationEvent& event) {
  choice.running = false;
  const bool stopped = choice.complete();
  if (!stopped && event.finish == FinishReason::kError) return Fail(event.error);
  if (!stopped && event.finish == FinishReason::kCancelled) {
    return Fail(absl::UnavailableError("the server cancelled this request"));
  }
  Begin(choice);
  Deliver(choice, choice.text.Finish());
  const bool cut = !stopped && !choice.text.stopped() && event.finish == FinishReason::kLength;
  Deliver(choice, choice.parser.Finish(cut));
  AnswerChoice& answer = answers_[choice.index];
  if (request_.stream && !answer.tokens.empty()) Write(format_->Delta(choice.index, answer, {}));
  if (request_.stream) answer.tokens.clear();
  if (!stopped) choice.tokens = event.generated_tokens;
  if (choice.tokens > 1) {
    parts_.metrics.TimePerOutputToken(SecondsBetween(choice.first_token_at, choice.last_token_at) /
                                      (choice.tokens - 1));
  }
  timings_.queue = std::max(timings_.queue, event.timings.queue);
  timings_.prefill = std::max(timings_.prefill, event.timings.prefill);
  timings_.decode = std::max(timings_.decode, event.timings.decode);
  record_.finish = cut ? "length" : "stop";
  answer.finish = !cut && choice.parser.calls() > 0 ? "tool_calls" : record_.finish;
  if (request_.stream) Write(format_->Close(choice.index, answer));
  const auto running = [](const auto& other) { return other->running; };
  if (std::none_of(choices_.begin(), choices_.end(), running)) Answer();
}

void GenerationCall::Answer() {
  GenerationSummary summary;
  summary.prompt_tokens = record_.prompt_tokens;
  summary.generated_tokens = Tokens();
  summary.timings = timings_;
  summary.ttft = record_.ttft;
  summary.total = SecondsBetween(record_.arrival, Clock::now());
  record_.generated_tokens = summary.generated_tokens;
  state_ = State::kAnswered;
  if (!request_.stream) return exchange_.Respond(format_->Whole(answers_, summary));
  Write(format_->End(answers_, summary));
  exchange_.EndStream(/*close_connection=*/false);
}

void GenerationCall::Fail(const absl::Status& status) {
  const ApiError error = ErrorFromStatus(status);
  CancelRunning();
  state_ = State::kAnswered;
  record_.finish = "error";
  record_.outcome = "error";
  record_.generated_tokens = Tokens();
  if (!streaming_) {
    record_.status = error.status;
    exchange_.Respond(format_->Error(error));
    return;
  }
  exchange_.Write(format_->StreamError(error));
  exchange_.EndStream(/*close_connection=*/true);
}

void GenerationCall::Write(const std::string& bytes) {
  if (!bytes.empty()) exchange_.Write(bytes);
}

// The head waits for the first token, so that a request which fails in the queue is answered with its true
// status.
void GenerationCall::Begin(Choice& choice) {
  if (request_.stream && !streaming_) {
    streaming_ = true;
    HttpResponse head;
    head.content_type = format_->StreamType();
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    exchange_.StartStream(std::move(head));
  }
  if (std::exchange(choice.begun, true)) return;
  if (request_.stream) Write(format_->Open(choice.index));
  if (!request_.before.empty()) Deliver(choice, {{OutputDelta::Kind::kContent, request_.before}});
  if (!request_.forced.empty()) Deliver(choice, choice.parser.Add(request_.forced));
}

void GenerationCall::Deliver(Choice& choice, TextPiece piece) {
  std::vector<TokenRecord>& tokens = answers_[choice.index].tokens;
  std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(tokens));
  if (!piece.text.empty()) Deliver(choice, choice.parser.Add(piece.text));
}

// Tokens of text that is held back go with what comes next.
void GenerationCall::Deliver(Choice& choice, const std::vector<OutputDelta>& deltas) {
  AnswerChoice& answer = answers_[choice.index];
  for (const OutputDelta& delta : deltas) {
    Take(choice, delta);
    if (!request_.stream) continue;
    Write(format_->Delta(choice.index, answer, delta));
    answer.tokens.clear();
  }
}

void GenerationCall::Take(Choice& choice, const OutputDelta& delta) {
  AnswerChoice& answer = answers_[choice.index];
  switch (delta.kind) {
    case OutputDelta::Kind::kContent:
      answer.text += delta.text;
      break;
    case OutputDelta::Kind::kReasoning:
      answer.reasoning += delta.text;
      break;
    case OutputDelta::Kind::kCall: {
      const CallStyle* style = request_.format.calls;
      answer.calls.push_back(
          {NewCallId(style == nullptr ? kDefaultIdLength : style->id_length), delta.text, ""});
      break;
    }
    case OutputDelta::Kind::kArguments:
      answer.calls.back().arguments += delta.text;
      break;
  }
}

void GenerationCall::Flushed() {
  if (!request_.stream || first_token_flushed_ || Tokens() == 0) return;
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
