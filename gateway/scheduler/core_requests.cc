// SchedulerCore: the life of a request from acceptance to its last event, and the pages it holds.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <span>

#include "engine/base/status.h"
#include "gateway/scheduler/core.h"

namespace spillway::gateway {

namespace {

// A sequence that must start over this often without a token in between will not get better.
constexpr uint32_t kMaxRestarts = 8;
constexpr uint32_t kMaxReplays = 3;  // of them not from the beginning

std::string_view FinishName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

std::vector<bool> GpuStages(const std::vector<StageEndpoint>& stages) {
  std::vector<bool> gpu;
  for (const StageEndpoint& stage : stages) gpu.push_back(stage.gpu);
  return gpu;
}

GenerationTimings TimingsOf(const Sequence& sequence, TimePoint now) {
  GenerationTimings timings;
  const bool sent = sequence.first_sent != TimePoint{};
  const bool drew = sequence.first_token != TimePoint{};
  timings.queue = Seconds((sent ? sequence.first_sent : now) - sequence.submitted);
  if (sent) timings.prefill = Seconds((drew ? sequence.first_token : now) - sequence.first_sent);
  if (drew) timings.decode = Seconds(sequence.last_token - sequence.first_token);
  return timings;
}

}  // namespace

PipelineLimits LimitsOf(const std::vector<StageEndpoint>& stages) {
  PipelineLimits limits{~0u, ~0u, ~0u, ~0u};
  for (const StageEndpoint& stage : stages) {
    limits.context = std::min(limits.context, stage.options.n_ctx);
    limits.pages = std::min(limits.pages, stage.options.kv_pages);
    limits.sequences = std::min(limits.sequences, stage.options.max_sequences);
    limits.rows = std::min(limits.rows, stage.options.max_rows);
  }
  const uint64_t pool_tokens = uint64_t{limits.pages} * kPageTokens;
  limits.context = static_cast<uint32_t>(std::min<uint64_t>(limits.context, pool_tokens));
  return limits;
}

absl::Status ValidateRequest(const GenerationRequest& request, const PipelineLimits& limits,
                             uint32_t n_vocab) {
  if (request.prompt.empty()) return InvalidArgument("the prompt is empty: at least one token is needed");
  if (request.prompt.size() >= limits.context) {
    return InvalidArgument("the prompt has {} tokens but the context holds {} (prompt and answer together)",
                           request.prompt.size(), limits.context);
  }
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] < 0 || static_cast<uint32_t>(request.prompt[i]) >= n_vocab) {
      return InvalidArgument("prompt token {} is {}, outside the vocabulary [0, {})", i, request.prompt[i],
                             n_vocab);
    }
  }
  if (request.stop_ids.size() > kMaxStopIds) {
    return InvalidArgument("{} stop ids, at most {} are allowed", request.stop_ids.size(), kMaxStopIds);
  }
  return ValidateSamplingParams(request.sampling, n_vocab);
}

SchedulerCore::SchedulerCore(const SchedulerOptions& options, std::vector<StageEndpoint> stages,
                             telemetry::GatewayMetrics* metrics)
    : options_(options),
      limits_(LimitsOf(stages)),
      metrics_(metrics),
      hops_(GpuStages(stages), metrics),
      pacer_(stages.size(), std::min(options.max_prefill_rows, limits_.rows),
             options.prefill_target_seconds) {
  for (StageEndpoint& stage : stages) {
    stages_.emplace_back();
    stages_.back().endpoint = std::move(stage);
  }
}

void SchedulerCore::Submit(RequestId id, GenerationRequest request, EventSink sink, TimePoint now) {
  auto owned = std::make_unique<Sequence>();
  Sequence& sequence = *owned;
  sequence.request = id;
  sequence.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
  const uint32_t room = limits_.context - sequence.prompt_tokens;
  const uint32_t wanted = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  sequence.token_limit = sequence.prompt_tokens + wanted;
  sequence.tokens = std::move(request.prompt);
  sequence.tokens.reserve(sequence.prompt_tokens + std::min(wanted, 4096u));
  sequence.sampling = std::move(request.sampling);
  // The sampler keeps stop ids from being drawn before min_tokens; it needs to know them.
  if (sequence.sampling.stop_ids.empty()) sequence.sampling.stop_ids = request.stop_ids;
  sequence.stop_ids = std::move(request.stop_ids);
  sequence.ignore_eos = request.ignore_eos;
  sequence.sink = std::move(sink);
  sequence.submitted = now;
  requests_.emplace(id, std::move(owned));
  waiting_.push_back(&sequence);
  const std::string why = WhyNotReady();
  if (!why.empty()) return Finish(sequence, FinishReason::kError, Unavailable("{}; retry", why), now);
  if (request.constraint == nullptr) return;
  sequence.constraint = std::make_unique<grammar::ConstraintState>(std::move(request.constraint));
  ComputeMask(sequence, now);
}

bool SchedulerCore::ComputeMask(Sequence& sequence, TimePoint now) {
  absl::StatusOr<grammar::TokenMask> mask = sequence.constraint->Mask();
  if (mask.ok()) {
    sequence.mask = *std::move(mask);
    return true;
  }
  Finish(sequence, FinishReason::kError,
         InvalidArgument("the schema of the answer cannot be followed: {}", MessageOf(mask.status())), now);
  return false;
}

void SchedulerCore::Cancel(RequestId id, TimePoint now) {
  const auto found = requests_.find(id);
  if (found != requests_.end()) Finish(*found->second, FinishReason::kCancelled, absl::OkStatus(), now);
}

void SchedulerCore::CancelAll(const absl::Status& why, TimePoint now) {
  std::vector<RequestId> ids;
  for (const auto& [id, sequence] : requests_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const RequestId id : ids) Finish(*requests_.at(id), FinishReason::kError, why, now);
}

std::string SchedulerCore::WhyNotReady() const {
  std::string why;
  for (const StageState& stage : stages_) {
    if (stage.up) continue;
    if (!why.empty()) why += "; ";
    why += fmt::format("{} is not ready: {}", stage.endpoint.name, stage.why);
  }
  return why;
}

// Pages for what is there and one token more, so that admission leaves room to draw.
uint32_t SchedulerCore::PagesWanted(const Sequence& sequence) const {
  return PagesFor(std::min(sequence.size() + 1, limits_.context));
}

// Besides its own pages everyone who can still grow keeps one in reserve; else the newcomer would be
// preempted at once.
bool SchedulerCore::CanAdmit(const Sequence& sequence) const {
  if (running_.size() >= limits_.sequences) return false;
  if (running_.empty()) return true;  // validated: a sequence alone always fits
  uint64_t pages = uint64_t{pages_held_} + PagesWanted(sequence);
  pages += PagesFor(sequence.token_limit) > PagesWanted(sequence) ? 1 : 0;
  for (const auto& [id, other] : running_) pages += PagesFor(other->token_limit) > other->pages ? 1 : 0;
  return pages <= limits_.pages;
}

void SchedulerCore::Admit(TimePoint now) {
  while (!waiting_.empty() && CanAdmit(*waiting_.front())) {
    Sequence& sequence = *waiting_.front();
    waiting_.pop_front();
    running_.emplace(sequence.request, &sequence);
    sequence.pages = PagesWanted(sequence);
    pages_held_ += sequence.pages;
    Begin(sequence);
  }
}

// Stages hear of it with its first micro-batch: what ends before that costs them nothing.
void SchedulerCore::Begin(Sequence& sequence) {
  sequence.id = next_sequence_++;
  sequence.opened_on = 0;
  sequence.sent = 0;
  sequence.sent_hash = 0;
  sequence.in_flight = 0;
  open_.emplace(sequence.id, &sequence);
}

void SchedulerCore::CloseEverywhere(Sequence& sequence) {
  if (sequence.id == 0) return;
  for (uint32_t i = 0; i < sequence.opened_on; ++i) {
    StageState& stage = stages_[i];
    stage.unproved_closes.emplace_back(stage.forwards_sent, sequence.id);
    if (!stage.up) continue;
    if (sequence.in_flight > 0) stage.endpoint.link->SendCancel(sequence.id);
    stage.endpoint.link->SendClose(sequence.id);
  }
  open_.erase(sequence.id);
  sequence.id = 0;
  sequence.in_flight = 0;
}

// By recompute: what it has generated becomes part of what is run again, with the prompt's end unchanged.
void SchedulerCore::Preempt(Sequence& sequence) {
  CloseEverywhere(sequence);
  running_.erase(sequence.request);
  pages_held_ -= sequence.pages;
  sequence.pages = 0;
  waiting_.push_front(&sequence);
  ++preemptions_;
  if (metrics_ != nullptr) metrics_->Preempted();
}

void SchedulerCore::Restart(Sequence& sequence, const std::string& why, TimePoint now) {
  if (++sequence.restarts > kMaxRestarts) {
    Finish(sequence, FinishReason::kError,
           Internal("the sequence was run again {} times: {}", kMaxRestarts, why), now);
    return;
  }
  spdlog::warn("event=replay id={} tokens={} cause=\"{}\"", sequence.request, sequence.size(), why);
  CloseEverywhere(sequence);
  Begin(sequence);
}

// The stages still have the tokens before; each cuts its state back to `from` or asks for more. Answers still
// to come belong to an older run. When that does not help, everything is run again.
void SchedulerCore::Replay(Sequence& sequence, uint32_t from, const std::string& why, TimePoint now) {
  if (from == 0 || sequence.restarts >= kMaxReplays) return Restart(sequence, why, now);
  ++sequence.restarts;
  spdlog::warn("event=replay id={} tokens={} from={} cause=\"{}\"", sequence.request, sequence.size(), from,
               why);
  ++sequence.run;
  sequence.sent = from;
  sequence.sent_hash = PrefixHash(std::span(sequence.tokens).first(from));
  sequence.in_flight = 0;
}

void SchedulerCore::AddToken(Sequence& sequence, const v1::SampledRow& row, TimePoint now) {
  grammar::ConstraintState* const constraint = sequence.constraint.get();
  if (constraint != nullptr && !constraint->Advance(row.chosen().token())) {
    return Finish(sequence, FinishReason::kError,
                  Internal("token {} was drawn against its mask", row.chosen().token()), now);
  }
  sequence.tokens.push_back(row.chosen().token());
  sequence.restarts = 0;
  hops_.Token(now);
  if (sequence.first_token == TimePoint{}) sequence.first_token = now;
  sequence.last_token = now;

  GenerationEvent event;
  event.kind = GenerationEvent::Kind::kToken;
  event.token = {row.chosen().token(), row.chosen().logprob()};
  event.top.reserve(static_cast<size_t>(row.top_size()));
  for (const v1::TokenLogprob& top : row.top()) event.top.push_back({top.token(), top.logprob()});
  const auto& stops = sequence.stop_ids;
  event.is_stop = (!sequence.ignore_eos || constraint != nullptr) &&
                  std::find(stops.begin(), stops.end(), event.token.token) != stops.end();
  sequence.sink(event);
  if (event.is_stop || (constraint != nullptr && constraint->Complete())) {
    Finish(sequence, FinishReason::kStop, absl::OkStatus(), now);
  } else if (sequence.size() >= sequence.token_limit) {
    Finish(sequence, FinishReason::kLength, absl::OkStatus(), now);
  } else if (constraint != nullptr) {
    ComputeMask(sequence, now);
  }
}

// Afterwards `sequence` is gone.
void SchedulerCore::Finish(Sequence& sequence, FinishReason reason, absl::Status error, TimePoint now) {
  CloseEverywhere(sequence);
  if (running_.erase(sequence.request) > 0) {
    pages_held_ -= sequence.pages;
  } else {
    std::erase(waiting_, &sequence);
  }
  const auto owned = std::move(requests_.extract(sequence.request).mapped());

  GenerationEvent event;
  event.kind = GenerationEvent::Kind::kDone;
  event.finish = reason;
  event.error = std::move(error);
  event.prompt_tokens = sequence.prompt_tokens;
  event.generated_tokens = sequence.generated();
  event.timings = TimingsOf(sequence, now);
  prompt_tokens_ += event.prompt_tokens;
  generated_tokens_ += event.generated_tokens;
  if (metrics_ != nullptr) {
    metrics_->Tokens(event.prompt_tokens, event.generated_tokens);
    if (event.generated_tokens > 0) {
      metrics_->Phases(event.timings.queue, event.timings.prefill, event.timings.decode);
    }
  }
  spdlog::info(
      "event=generation id={} prompt_tokens={} generated_tokens={} queue_ms={:.1f} prefill_ms={:.1f} "
      "decode_ms={:.1f} finish={}{}",
      sequence.request, event.prompt_tokens, event.generated_tokens, event.timings.queue * 1e3,
      event.timings.prefill * 1e3, event.timings.decode * 1e3, FinishName(reason),
      event.error.ok() ? std::string() : fmt::format(" error=\"{}\"", MessageOf(event.error)));
  owned->sink(event);
}

Sequence* SchedulerCore::FindRun(const BatchItem& item) {
  Sequence* sequence = FindOpen(item.sequence);
  return sequence != nullptr && sequence->run == item.run ? sequence : nullptr;
}

Sequence* SchedulerCore::FindOpen(SequenceId id) {
  const auto found = open_.find(id);
  return found == open_.end() ? nullptr : found->second;
}

}  // namespace spillway::gateway
