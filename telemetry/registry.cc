// The registry of a process: its families, and what the system says of the process itself.
#include "telemetry/registry.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "device/process.h"
#include "telemetry/catalogue.h"
#include "telemetry/series.h"

namespace spillway::telemetry {
namespace {

void AppendValue(std::string_view name, double value, std::vector<prometheus::MetricFamily>* families) {
  const MetricSpec* spec = FindMetric(name);
  SPILLWAY_CHECK(spec != nullptr);
  prometheus::MetricFamily family;
  family.name = spec->name;
  family.help = spec->help;
  prometheus::ClientMetric metric;
  if (spec->type == MetricType::kCounter) {
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = value;
  } else {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = value;
  }
  family.metric.push_back(std::move(metric));
  families->push_back(std::move(family));
}

// Read at every scrape, so that nothing runs between scrapes.
void AppendProcess(std::vector<prometheus::MetricFamily>* families) {
  const device::ProcessFacts facts = device::ReadProcess(device::Root());
  if (!facts.known) return;
  AppendValue("process_cpu_seconds_total", facts.cpu_seconds, families);
  AppendValue("process_resident_memory_bytes", static_cast<double>(facts.resident_bytes), families);
  AppendValue("process_virtual_memory_bytes", static_cast<double>(facts.virtual_bytes), families);
  AppendValue("process_open_fds", static_cast<double>(facts.open_fds), families);
  AppendValue("process_start_time_seconds", facts.start_unix_seconds, families);
  AppendValue("process_major_faults_total", static_cast<double>(facts.major_faults), families);
}

}  // namespace

struct Registry::Impl {
  prometheus::Registry registry;
};

Registry::Registry(const std::string& service) : impl_(std::make_unique<Impl>()) {
  GaugeSeries build_info(impl_->registry, "spillway_build_info",
                         {{"service", service}, {"version", kVersion}});
  build_info.only().Set(1);
}
Registry::~Registry() = default;

std::string Registry::Render() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  AppendProcess(&families);
  return prometheus::TextSerializer().Serialize(families);
}

prometheus::Registry& Registry::prometheus() { return impl_->registry; }

}  // namespace spillway::telemetry
