// See generation_service.h. The call's thread waits for events that the scheduler's thread leaves in a
// mailbox.
#include "gateway/grpc/generation_service.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "engine/base/status.h"
#include "gateway/grpc/text_assembly.h"
#include "rpc/convert.h"

namespace spillway::gateway {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxTextBytes = size_t{4} << 20;
// How often a waiting call looks whether its client is still there.
constexpr std::chrono::milliseconds kDisconnectCheck{50};

struct TimedEvent {
  GenerationEvent event;
  Clock::time_point at;
};

// Shared by the call and the sink: an event may still be under way when the call has returned.
class Mailbox {
 public:
  void Push(const GenerationEvent& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back({event, Clock::now()});
    filled_.notify_one();
  }
  // Everything there is; empty after the timeout.
  std::deque<TimedEvent> Take(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, timeout, [this] { return !events_.empty(); });
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<TimedEvent> events_;
};

uint64_t RandomSeed() {
  thread_local std::random_device device;
  return uint64_t{device()} << 32 | device();
}

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

uint64_t Nanoseconds(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

std::string_view OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return "ok";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    case absl::StatusCode::kInvalidArgument:
      return "client_error";
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return "rejected";
    default:
      return "error";
  }
}

// What one call has answered so far, and what the metrics say of it. Confined to the call's thread.
class Answer {
 public:
  Answer(TextAssembly text, Clock::time_point arrival, telemetry::GatewayMetrics& metrics)
      : text_(std::move(text)), arrival_(arrival), metrics_(metrics) {}

  bool stopped() const { return text_.stopped(); }

  void AddToken(const TimedEvent& timed, v1::GenerateReply* reply) {
    if (text_.stopped()) return;  // drawn before the cancellation arrived
    if (tokens_++ == 0) {
      first_ = timed.at;
    } else {
      metrics_.InterToken(SecondsBetween(previous_, timed.at));
    }
    previous_ = timed.at;
    const GenerationEvent& event = timed.event;
    v1::TokenLogprob& token = *reply->add_tokens();
    token.set_token(event.token.token);
    token.set_logprob(event.token.logprob);
    if (!event.is_stop) reply->mutable_text()->append(text_.Add(event.token.token));
  }

  // The error that ended it, if one did.
  absl::Status Finish(const GenerationEvent& done, v1::GenerateReply* reply) {
    if (!text_.stopped() && done.finish == FinishReason::kError) return done.error;
    reply->mutable_text()->append(text_.Finish());
    const bool stop = text_.stopped() || done.finish == FinishReason::kStop;
    const bool cancelled = !stop && done.finish == FinishReason::kCancelled;
    reply->set_finish_reason(stop ? "stop" : cancelled ? "cancelled" : "length");
    v1::Usage& usage = *reply->mutable_usage();
    usage.set_prompt_tokens(done.prompt_tokens);
    usage.set_completion_tokens(tokens_);
    usage.set_queue_ns(Nanoseconds(done.timings.queue));
    usage.set_prefill_ns(Nanoseconds(done.timings.prefill));
    usage.set_decode_ns(Nanoseconds(done.timings.decode));
    if (tokens_ > 1) metrics_.TimePerOutputToken(SecondsBetween(first_, previous_) / (tokens_ - 1));
    return absl::OkStatus();
  }

  // A reply has been handed over.
  void Sent() {
    if (tokens_ > 0 && !std::exchange(first_sent_, true)) {
      metrics_.FirstToken(SecondsBetween(arrival_, Clock::now()));
    }
  }

 private:
  TextAssembly text_;
  const Clock::time_point arrival_;
  telemetry::GatewayMetrics& metrics_;
  uint32_t tokens_ = 0;
  bool first_sent_ = false;
  Clock::time_point first_;
  Clock::time_point previous_;
};

}  // namespace

absl::StatusOr<GenerationRequest> GenerationService::Parse(const v1::GenerateRequest& request) const {
  GenerationRequest result;
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText: {
      if (request.text().size() > kMaxTextBytes) {
        return InvalidArgument("text has {} bytes, at most {} are allowed", request.text().size(),
                               kMaxTextBytes);
      }
      result.prompt = tokenizer_.Encode(request.text(), /*parse_special=*/true);
      const std::optional<int32_t> bos = tokenizer_.bos();
      const bool begins_with_bos = bos.has_value() && !result.prompt.empty() && result.prompt.front() == *bos;
      if (tokenizer_.add_bos() && bos.has_value() && !begins_with_bos) {
        result.prompt.insert(result.prompt.begin(), *bos);
      }
      break;
    }
    case v1::GenerateRequest::kTokens:
      result.prompt.assign(request.tokens().ids().begin(), request.tokens().ids().end());
      break;
    case v1::GenerateRequest::PROMPT_NOT_SET:
      return InvalidArgument("prompt: give text or tokens");
  }
  v1::SamplingParameters sampling = request.sampling();
  // Unset is 0 on the wire; these two have another neutral value.
  if (sampling.top_p() == 0) sampling.set_top_p(1);
  if (sampling.repetition_penalty() == 0) sampling.set_repetition_penalty(1);
  if (!request.has_seed()) sampling.set_seed(RandomSeed());
  SPILLWAY_ASSIGN_OR_RETURN(result.sampling, rpc::SamplingFromProto(sampling));
  result.stop_ids = tokenizer_.stop_ids();
  result.stop_ids.insert(result.stop_ids.end(), sampling.stop_ids().begin(), sampling.stop_ids().end());
  result.sampling.stop_ids = result.stop_ids;
  result.max_tokens = request.max_tokens();
  result.ignore_eos = request.ignore_eos();
  return result;
}

grpc::Status GenerationService::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                         grpc::ServerWriter<v1::GenerateReply>* writer) {
  const Clock::time_point arrival = Clock::now();
  const absl::Status status = Run(*request, *context, *writer);
  metrics_.RequestFinished("generate", OutcomeOf(status),
                           std::chrono::duration<double>(Clock::now() - arrival).count());
  return rpc::ToGrpc(status);
}

absl::Status GenerationService::Run(const v1::GenerateRequest& request, grpc::ServerContext& context,
                                    grpc::ServerWriter<v1::GenerateReply>& writer) {
  const Clock::time_point arrival = Clock::now();
  SPILLWAY_ASSIGN_OR_RETURN(GenerationRequest parsed, Parse(request));
  const std::vector<std::string> stops(request.stop().begin(), request.stop().end());
  SPILLWAY_ASSIGN_OR_RETURN(StopMatcher matcher, StopMatcher::Create(stops));
  std::optional<int32_t> previous;
  if (!parsed.prompt.empty()) previous = parsed.prompt.back();
  Answer answer(TextAssembly(tokenizer_, std::move(matcher), previous), arrival, metrics_);
  const auto mailbox = std::make_shared<Mailbox>();
  const absl::StatusOr<RequestId> id =
      backend_.Submit(std::move(parsed), [mailbox](const GenerationEvent& event) { mailbox->Push(event); });
  if (!id.ok()) {
    if (absl::IsResourceExhausted(id.status())) metrics_.Rejected("queue_full");
    if (absl::IsUnavailable(id.status())) metrics_.Rejected("no_worker");
    return id.status();
  }
  bool stopping = false;
  while (true) {
    v1::GenerateReply reply;
    std::optional<GenerationEvent> done;
    for (const TimedEvent& timed : mailbox->Take(kDisconnectCheck)) {
      if (timed.event.kind == GenerationEvent::Kind::kDone) {
        done = timed.event;
      } else {
        answer.AddToken(timed, &reply);
      }
    }
    // A stop string ends the text; the backend's last event still brings the timings.
    if (answer.stopped() && !std::exchange(stopping, true)) backend_.Cancel(*id);
    if (done.has_value()) SPILLWAY_RETURN_IF_ERROR(answer.Finish(*done, &reply));
    const bool something = reply.tokens_size() > 0 || done.has_value();
    const bool gone = context.IsCancelled() || (something && !writer.Write(reply));
    if (gone && !done.has_value()) backend_.Cancel(*id);
    if (gone) return absl::CancelledError("the client left");
    if (something) answer.Sent();
    if (done.has_value()) return absl::OkStatus();
  }
}

}  // namespace spillway::gateway
