// Families of the monitor, made from the catalogue.
#include "telemetry/monitor_metrics.h"

#include <map>

#include "telemetry/registry.h"
#include "telemetry/series.h"

namespace spillway::telemetry {
namespace {

struct WorkerSeries {
  WorkerSeries(prometheus::Registry& r, const FixedLabels& worker)
      : up(r, "spillway_monitor_worker_up", worker),
        fallback(r, "spillway_monitor_worker_fallback_active", worker),
        transitions(r, "spillway_monitor_transitions_total", worker),
        planned(r, "spillway_monitor_worker_layers_planned", worker),
        executed(r, "spillway_monitor_worker_layers_executed", worker) {}
  GaugeSeries up, fallback;
  CounterSeries transitions;
  GaugeSeries planned, executed;
};

struct EngineSeries {
  EngineSeries(prometheus::Registry& r, const FixedLabels& engine)
      : up(r, "spillway_watched_engine_up", engine),
        share(r, "spillway_watched_vram_share_ratio", engine),
        fallback(r, "spillway_watched_fallback_active", engine) {}
  GaugeSeries up, share, fallback;
};

void SetCause(GaugeSeries& series, std::string_view cause) {
  series.ForEach([cause](const std::vector<std::string>& values, prometheus::Gauge& gauge) {
    gauge.Set(values.front() == cause ? 1 : 0);
  });
}

}  // namespace

struct MonitorMetrics::Impl {
  explicit Impl(prometheus::Registry& r)
      : gateway_up(r, "spillway_monitor_gateway_up"),
        rounds(r, "spillway_monitor_rounds_total"),
        present(r, "spillway_device_present"),
        total(r, "spillway_device_memory_total_bytes"),
        used(r, "spillway_device_memory_used_bytes"),
        free(r, "spillway_device_memory_free_bytes") {}
  GaugeSeries gateway_up;
  CounterSeries rounds;
  GaugeSeries present, total, used, free;
  // Filled at construction, then only read.
  std::map<std::string, std::unique_ptr<WorkerSeries>> workers;
  std::map<std::string, std::unique_ptr<EngineSeries>> engines;
};

MonitorMetrics::MonitorMetrics(Registry& registry, const std::vector<std::string>& workers,
                               const std::vector<std::string>& engines)
    : impl_(std::make_unique<Impl>(registry.prometheus())) {
  for (const std::string& worker : workers) {
    impl_->workers[worker] =
        std::make_unique<WorkerSeries>(registry.prometheus(), FixedLabels{{"worker", worker}});
  }
  for (const std::string& engine : engines) {
    auto& series = impl_->engines[engine];
    series = std::make_unique<EngineSeries>(registry.prometheus(), FixedLabels{{"engine", engine}});
    series->share.only().Set(1);
  }
}
MonitorMetrics::~MonitorMetrics() = default;

void MonitorMetrics::SetWorker(const std::string& worker, bool up, double layers_planned,
                               double layers_executed) {
  const auto found = impl_->workers.find(worker);
  if (found == impl_->workers.end()) return;
  found->second->up.only().Set(up ? 1 : 0);
  found->second->planned.only().Set(layers_planned);
  found->second->executed.only().Set(layers_executed);
}

void MonitorMetrics::SetVerdict(const std::string& worker, std::string_view cause) {
  const auto found = impl_->workers.find(worker);
  if (found == impl_->workers.end()) return;
  SetCause(found->second->fallback, cause);
}

void MonitorMetrics::SetEngine(const std::string& engine, bool up, double vram_share,
                               std::string_view cause) {
  const auto found = impl_->engines.find(engine);
  if (found == impl_->engines.end()) return;
  found->second->up.only().Set(up ? 1 : 0);
  found->second->share.only().Set(vram_share);
  SetCause(found->second->fallback, cause);
}

void MonitorMetrics::Transition(const std::string& worker) {
  const auto found = impl_->workers.find(worker);
  if (found != impl_->workers.end()) found->second->transitions.only().Increment();
}

void MonitorMetrics::SetGatewayUp(bool up) { impl_->gateway_up.only().Set(up ? 1 : 0); }
void MonitorMetrics::RoundDone() { impl_->rounds.only().Increment(); }

void MonitorMetrics::SetDevice(std::string_view device, bool present, uint64_t total_bytes,
                               uint64_t free_bytes) {
  Set(impl_->present, {device}, present ? 1 : 0);
  Set(impl_->total, {device}, static_cast<double>(total_bytes));
  Set(impl_->free, {device}, static_cast<double>(free_bytes));
  Set(impl_->used, {device}, static_cast<double>(total_bytes - std::min(free_bytes, total_bytes)));
}

}  // namespace spillway::telemetry
