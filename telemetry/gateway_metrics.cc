// Families of the gateway, made from the catalogue.
#include "telemetry/gateway_metrics.h"

#include <map>
#include <mutex>

#include "telemetry/registry.h"
#include "telemetry/series.h"

namespace spillway::telemetry {
namespace {

// Workers beyond this many share the peer "other", so that a growing list cannot grow the scrape without
// bound.
constexpr size_t kMaxPeers = 64;

}  // namespace

struct GatewayMetrics::Impl {
  Impl(prometheus::Registry& r, const FixedLabels& model)
      : requests(r, "spillway_requests_total", model),
        duration(r, "spillway_request_duration_seconds", model),
        first_token(r, "spillway_time_to_first_token_seconds", model),
        inter_token(r, "spillway_inter_token_latency_seconds", model),
        per_token(r, "spillway_time_per_output_token_seconds", model),
        queue(r, "spillway_request_queue_seconds", model),
        prefill(r, "spillway_request_prefill_seconds", model),
        decode(r, "spillway_request_decode_seconds", model),
        prompt_tokens(r, "spillway_prompt_tokens_total", model),
        generated_tokens(r, "spillway_generated_tokens_total", model),
        prompt_size(r, "spillway_request_prompt_tokens", model),
        generated_size(r, "spillway_request_generated_tokens", model),
        running(r, "spillway_requests_running", model),
        waiting(r, "spillway_requests_waiting", model),
        rejected(r, "spillway_requests_rejected_total"),
        preemptions(r, "spillway_preemptions_total", model),
        hop(r, "spillway_hop_duration_seconds"),
        payload(r, "spillway_hop_payload_bytes_total"),
        hop_errors(r, "spillway_hop_errors_total"),
        hop_inflight(r, "spillway_hop_inflight"),
        stall(r, "spillway_pipeline_stall_seconds_total"),
        workers(r, "spillway_workers"),
        layers(r, "spillway_layers", model),
        layers_planned(r, "spillway_layers_planned", model),
        weights(r, "spillway_weights_bytes", model),
        registry(r) {}

  CounterSeries requests;
  HistogramSeries duration, first_token, inter_token, per_token, queue, prefill, decode;
  CounterSeries prompt_tokens, generated_tokens;
  HistogramSeries prompt_size, generated_size;
  GaugeSeries running, waiting;
  CounterSeries rejected, preemptions;
  HistogramSeries hop;
  CounterSeries payload, hop_errors;
  GaugeSeries hop_inflight;
  CounterSeries stall;
  GaugeSeries workers, layers, layers_planned, weights;

  prometheus::Registry& registry;
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<GaugeSeries>> heartbeats;  // guarded by mutex
};

GatewayMetrics::GatewayMetrics(Registry& registry, const std::string& model)
    : impl_(std::make_unique<Impl>(registry.prometheus(), FixedLabels{{"model", model}})) {}
GatewayMetrics::~GatewayMetrics() = default;

void GatewayMetrics::RequestFinished(std::string_view endpoint, std::string_view outcome, double seconds) {
  Add(impl_->requests, {endpoint, outcome});
  Observe(impl_->duration, {endpoint}, seconds);
}
void GatewayMetrics::FirstToken(double seconds) { impl_->first_token.only().Observe(seconds); }
void GatewayMetrics::InterToken(double seconds) { impl_->inter_token.only().Observe(seconds); }
void GatewayMetrics::TimePerOutputToken(double seconds) { impl_->per_token.only().Observe(seconds); }
void GatewayMetrics::Phases(double queue, double prefill, double decode) {
  impl_->queue.only().Observe(queue);
  impl_->prefill.only().Observe(prefill);
  impl_->decode.only().Observe(decode);
}
void GatewayMetrics::Tokens(uint64_t prompt, uint64_t generated) {
  impl_->prompt_tokens.only().Increment(static_cast<double>(prompt));
  impl_->generated_tokens.only().Increment(static_cast<double>(generated));
  impl_->prompt_size.only().Observe(static_cast<double>(prompt));
  impl_->generated_size.only().Observe(static_cast<double>(generated));
}
void GatewayMetrics::SetRunning(double count) { impl_->running.only().Set(count); }
void GatewayMetrics::SetWaiting(double count) { impl_->waiting.only().Set(count); }
void GatewayMetrics::Rejected(std::string_view reason) { Add(impl_->rejected, {reason}); }
void GatewayMetrics::Preempted() { impl_->preemptions.only().Increment(); }

void GatewayMetrics::Hop(const HopSample& sample) {
  Observe(impl_->hop, {sample.stage, sample.phase, "queue"}, sample.queue);
  Observe(impl_->hop, {sample.stage, sample.phase, "compute"}, sample.compute);
  Observe(impl_->hop, {sample.stage, sample.phase, "serialize"}, sample.serialize);
  Observe(impl_->hop, {sample.stage, sample.phase, "transport"}, sample.transport);
  Add(impl_->payload, {sample.stage, "sent", sample.phase}, static_cast<double>(sample.sent_bytes));
  Add(impl_->payload, {sample.stage, "received", sample.phase}, static_cast<double>(sample.received_bytes));
}

void GatewayMetrics::HopError(std::string_view stage, std::string_view code) {
  Add(impl_->hop_errors, {stage, code});
}
void GatewayMetrics::SetHopInflight(std::string_view stage, double count) {
  Set(impl_->hop_inflight, {stage}, count);
}
void GatewayMetrics::PipelineStall(std::string_view stage, double seconds) {
  Add(impl_->stall, {stage}, seconds);
}
void GatewayMetrics::SetWorkers(std::string_view stage, std::string_view state, double count) {
  Set(impl_->workers, {stage, state}, count);
}
void GatewayMetrics::SetLayers(std::string_view stage, std::string_view memory, double planned,
                               double actual) {
  Set(impl_->layers_planned, {stage, memory}, planned);
  Set(impl_->layers, {stage, memory}, actual);
}
void GatewayMetrics::SetWeightsBytes(std::string_view memory, double bytes) {
  Set(impl_->weights, {memory}, bytes);
}

void GatewayMetrics::WorkerHeartbeat(std::string_view stage, std::string_view peer, double unix_seconds) {
  const std::lock_guard lock(impl_->mutex);
  std::pair<std::string, std::string> key(stage, peer);
  if (!impl_->heartbeats.contains(key) && impl_->heartbeats.size() >= kMaxPeers) key.second = "other";
  std::unique_ptr<GaugeSeries>& series = impl_->heartbeats[key];
  if (!series) {
    series =
        std::make_unique<GaugeSeries>(impl_->registry, "spillway_worker_last_heartbeat_timestamp_seconds",
                                      FixedLabels{{"stage", key.first}, {"peer", key.second}});
  }
  series->only().Set(unix_seconds);
}

}  // namespace spillway::telemetry
