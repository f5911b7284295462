// The one table of metrics: name, type, owner, help, labels with their closed value sets, buckets. Families
// are made from it, docs/metrics.md is generated from it, dashboards and alert rules are checked against it.
// Knows no prometheus-cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::telemetry {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };
std::string_view MetricTypeName(MetricType type);

// The kind of process that exports a metric; a metric has exactly one.
enum class Owner : uint8_t { kGateway, kWorker, kMonitor, kEvery };
std::string_view OwnerName(Owner owner);

struct LabelSpec {
  std::string name;
  // The closed set of values, pre-created at 0. Empty: values come from the configuration (a model's or a
  // worker's name, a version), never from a client.
  std::vector<std::string> values;
};

struct MetricSpec {
  std::string name;
  MetricType type = MetricType::kGauge;
  Owner owner = Owner::kEvery;
  std::string help;
  std::vector<LabelSpec> labels;
  std::vector<double> buckets;  // of a histogram, ascending, without +Inf
};

const std::vector<MetricSpec>& Catalogue();
const MetricSpec* FindMetric(std::string_view name);

// docs/metrics.md and the same table for scripts (one JSON object).
std::string CatalogueMarkdown();
std::string CatalogueJson();

}  // namespace spillway::telemetry
