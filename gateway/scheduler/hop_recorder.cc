// See hop_recorder.h.
#include "gateway/scheduler/hop_recorder.h"

#include <algorithm>

namespace spillway::gateway {

namespace {

int64_t SecondOf(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

HopRecorder::HopRecorder(std::vector<bool> gpu_stages, telemetry::GatewayMetrics* metrics)
    : metrics_(metrics), stages_(gpu_stages.size()) {
  for (size_t i = 0; i < gpu_stages.size(); ++i) stages_[i].gpu = gpu_stages[i];
}

// A stage stalls while others work for it: it has nothing although something is in flight elsewhere.
void HopRecorder::AccountIdleTime(TimePoint now) {
  const bool any = std::any_of(stages_.begin(), stages_.end(), [](const auto& s) { return s.in_flight > 0; });
  if (any && metrics_ != nullptr) {
    const double seconds = Seconds(now - last_change_);
    for (uint32_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i].in_flight == 0 && seconds > 0) metrics_->PipelineStall(Role(i), seconds);
    }
  }
  last_change_ = now;
}

void HopRecorder::PublishInflight(uint32_t stage) {
  if (metrics_ == nullptr) return;
  uint32_t count = 0;
  for (const StageAccount& other : stages_) count += other.gpu == stages_[stage].gpu ? other.in_flight : 0;
  metrics_->SetHopInflight(Role(stage), count);
}

void HopRecorder::Sent(uint32_t stage, TimePoint now) {
  AccountIdleTime(now);
  ++stages_[stage].in_flight;
  PublishInflight(stage);
}

void HopRecorder::Answered(uint32_t stage, const rpc::HopReply& reply, bool prefill, TimePoint now) {
  AccountIdleTime(now);
  StageAccount& account = stages_[stage];
  if (account.in_flight > 0) --account.in_flight;
  PublishInflight(stage);

  const v1::HopTimings& timings = reply.reply.timings();
  telemetry::HopSample sample;
  sample.stage = Role(stage);
  sample.phase = prefill ? "prefill" : "decode";
  sample.queue = static_cast<double>(timings.queue_ns()) * 1e-9;
  sample.compute = static_cast<double>(timings.compute_ns()) * 1e-9;
  sample.serialize = static_cast<double>(timings.serialize_ns()) * 1e-9;
  sample.transport =
      std::max(0.0, reply.round_trip_seconds - sample.queue - sample.compute - sample.serialize);
  sample.sent_bytes = reply.sent_bytes;
  sample.received_bytes = reply.received_bytes;
  if (metrics_ != nullptr) metrics_->Hop(sample);
  if (!prefill) {
    const std::lock_guard lock(mutex_);
    account.decode.Add(SecondOf(now), {sample.queue, sample.compute, sample.serialize, sample.transport});
  }
}

void HopRecorder::Lost(uint32_t stage, absl::StatusCode code, TimePoint now) {
  AccountIdleTime(now);
  stages_[stage].in_flight = 0;
  PublishInflight(stage);
  Error(stage, code);
}

void HopRecorder::Error(uint32_t stage, absl::StatusCode code) {
  if (metrics_ != nullptr) metrics_->HopError(Role(stage), GrpcCodeName(code));
}

void HopRecorder::Token(TimePoint now) {
  const std::lock_guard lock(mutex_);
  tokens_.Add(SecondOf(now), {1.0});
}

HopMeans HopRecorder::DecodeMeans(uint32_t stage, TimePoint now) const {
  std::array<double, 4> sums = {};
  int64_t oldest = 0;
  const std::lock_guard lock(mutex_);
  const uint64_t count = stages_[stage].decode.Sum(SecondOf(now), &sums, &oldest);
  if (count == 0) return {};
  const double n = static_cast<double>(count);
  return {sums[0] / n, sums[1] / n, sums[2] / n, sums[3] / n};
}

double HopRecorder::TokensPerSecond(TimePoint now) const {
  std::array<double, 1> sums = {};
  int64_t oldest = 0;
  const std::lock_guard lock(mutex_);
  const uint64_t count = tokens_.Sum(SecondOf(now), &sums, &oldest);
  return static_cast<double>(count) / static_cast<double>(SecondOf(now) - oldest + 1);
}

std::string_view GrpcCodeName(absl::StatusCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : kNames[2];
}

}  // namespace spillway::gateway
