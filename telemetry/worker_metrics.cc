// Families of a worker, made from the catalogue. Stage and device are fixed for the life of the process.
#include "telemetry/worker_metrics.h"

#include <limits>
#include <mutex>

#include "engine/stage/stage.h"
#include "telemetry/registry.h"
#include "telemetry/series.h"

namespace spillway::telemetry {

struct WorkerMetrics::Impl {
  Impl(prometheus::Registry& r, const FixedLabels& fixed)
      : compute(r, "spillway_stage_compute_seconds", fixed),
        busy(r, "spillway_stage_busy_seconds_total", fixed),
        inflight(r, "spillway_stage_inflight", fixed),
        batch(r, "spillway_stage_batch_tokens", fixed),
        weight_read(r, "spillway_stage_weight_read_bytes_total", fixed),
        layers_planned(r, "spillway_stage_layers_planned", fixed),
        layers_loaded(r, "spillway_stage_layers_loaded", fixed),
        layer_steps(r, "spillway_stage_layer_steps_total", fixed),
        kv_utilization(r, "spillway_kv_cache_utilization_ratio", fixed),
        kv_capacity(r, "spillway_kv_cache_capacity_tokens", fixed),
        memory(r, "spillway_device_memory_purpose_bytes", fixed),
        budget(r, "spillway_device_memory_budget_bytes", fixed),
        allocation_failures(r, "spillway_device_allocation_failures_total", fixed),
        state(r, "spillway_state"),
        fallback(r, "spillway_fallback_active"),
        transitions(r, "spillway_fallback_transitions_total"),
        model_info(prometheus::BuildGauge()
                       .Name("spillway_model_info")
                       .Help(FindMetric("spillway_model_info")->help)
                       .Register(r)) {}

  HistogramSeries compute;
  CounterSeries busy;
  GaugeSeries inflight;
  HistogramSeries batch;
  CounterSeries weight_read;
  GaugeSeries layers_planned, layers_loaded;
  CounterSeries layer_steps;
  GaugeSeries kv_utilization, kv_capacity, memory, budget;
  CounterSeries allocation_failures;
  GaugeSeries state, fallback;
  CounterSeries transitions;
  prometheus::Family<prometheus::Gauge>& model_info;

  std::mutex mutex;  // guards what follows
  uint64_t failures_seen = 0;
  std::string cause, extent;
  prometheus::Gauge* model = nullptr;
};

WorkerMetrics::WorkerMetrics(Registry& registry, const std::string& role, const std::string& device)
    : impl_(std::make_unique<Impl>(registry.prometheus(), FixedLabels{{"stage", role}, {"device", device}})) {
  SetState("starting");
}
WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::StageCompute(std::string_view phase, double seconds, uint32_t rows) {
  Observe(impl_->compute, {phase}, seconds);
  impl_->busy.only().Increment(seconds);
  impl_->batch.only().Observe(rows);
}
void WorkerMetrics::SetInflight(double count) { impl_->inflight.only().Set(count); }
void WorkerMetrics::SetKvCache(uint64_t pages_used, uint64_t pages_total) {
  const double used = static_cast<double>(pages_used), total = static_cast<double>(pages_total);
  impl_->kv_utilization.only().Set(pages_total == 0 ? 0 : used / total);
  impl_->kv_capacity.only().Set(total * kPageTokens);
}
void WorkerMetrics::SetMemory(const PurposeBytes& allocated, uint64_t budget_bytes) {
  for (size_t i = 0; i < kPurposes; ++i) {
    Set(impl_->memory, {kPurposeNames[i]}, static_cast<double>(allocated.bytes[i]));
  }
  const bool unlimited = budget_bytes == Ledger::kUnlimited;
  impl_->budget.only().Set(unlimited ? std::numeric_limits<double>::infinity()
                                     : static_cast<double>(budget_bytes));
}
void WorkerMetrics::SetLayers(double planned, double loaded) {
  impl_->layers_planned.only().Set(planned);
  impl_->layers_loaded.only().Set(loaded);
}
void WorkerMetrics::LayerSteps(uint64_t steps) {
  impl_->layer_steps.only().Increment(static_cast<double>(steps));
}

void WorkerMetrics::AllocationFailures(uint64_t total) {
  const std::lock_guard lock(impl_->mutex);
  if (total <= impl_->failures_seen) return;
  impl_->allocation_failures.only().Increment(static_cast<double>(total - impl_->failures_seen));
  impl_->failures_seen = total;
}

void WorkerMetrics::SetState(std::string_view state) {
  impl_->state.ForEach([state](const std::vector<std::string>& values, prometheus::Gauge& gauge) {
    gauge.Set(values.front() == state ? 1 : 0);
  });
}

void WorkerMetrics::SetFallback(std::string_view cause, std::string_view extent) {
  const std::lock_guard lock(impl_->mutex);
  if (cause == impl_->cause && extent == impl_->extent) return;
  impl_->cause = cause;
  impl_->extent = extent;
  if (!cause.empty()) Add(impl_->transitions, {cause, extent});
  impl_->fallback.ForEach([&](const std::vector<std::string>& values, prometheus::Gauge& gauge) {
    gauge.Set(values[0] == cause && values[1] == extent ? 1 : 0);
  });
}

void WorkerMetrics::SetModel(std::string_view name, std::string_view architecture,
                             std::string_view quantization, uint32_t layers, uint32_t context) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->model != nullptr) impl_->model_info.Remove(impl_->model);
  impl_->model = &impl_->model_info.Add({{"model", std::string(name)},
                                         {"architecture", std::string(architecture)},
                                         {"quantization", std::string(quantization)},
                                         {"layers", std::to_string(layers)},
                                         {"context", std::to_string(context)}});
  impl_->model->Set(1);
}
void WorkerMetrics::WeightBytesRead(uint64_t bytes) {
  impl_->weight_read.only().Increment(static_cast<double>(bytes));
}

}  // namespace spillway::telemetry
