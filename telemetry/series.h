// The series of one metric, made from its row of the catalogue: every combination of closed label values
// exists from the start. Only for the .cc files of telemetry/.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/base/status.h"
#include "telemetry/catalogue.h"

namespace spillway::telemetry {

using FixedLabels = std::map<std::string, std::string>;

// Thread-safe once constructed. T: prometheus::Counter | Gauge | Histogram.
template <typename T>
class Series {
 public:
  // `fixed` gives the labels whose value is the same in this whole process. The other labels must be closed.
  Series(prometheus::Registry& registry, std::string_view name, const FixedLabels& fixed = {})
      : spec_(FindMetric(name)) {
    SPILLWAY_CHECK(spec_ != nullptr);
    family_ = &Build(registry);
    std::vector<std::string> values;
    AddCombinations(fixed, {}, &values, 0);
  }

  // Values of the labels that are not fixed, in the catalogue's order. A value outside its set is our own
  // mistake: it is logged once and counted nowhere, rather than growing the set or stopping a server.
  T* Find(std::initializer_list<std::string_view> values) const {
    for (const Entry& entry : entries_) {
      if (std::equal(entry.values.begin(), entry.values.end(), values.begin(), values.end()))
        return entry.metric;
    }
    if (!warned_.exchange(true)) {
      spdlog::warn("metric {}: label values outside the closed set: {}", spec_->name,
                   fmt::join(values.begin(), values.end(), ", "));
    }
    return nullptr;
  }
  T& only() const { return *entries_.front().metric; }  // for metrics all of whose labels are fixed

  template <typename Function>
  void ForEach(Function function) const {
    for (const Entry& entry : entries_) function(entry.values, *entry.metric);
  }

 private:
  struct Entry {
    std::vector<std::string> values;
    T* metric;
  };

  prometheus::Family<T>& Build(prometheus::Registry& registry) {
    if constexpr (std::is_same_v<T, prometheus::Counter>) {
      SPILLWAY_CHECK(spec_->type == MetricType::kCounter);
      return prometheus::BuildCounter().Name(spec_->name).Help(spec_->help).Register(registry);
    } else if constexpr (std::is_same_v<T, prometheus::Gauge>) {
      SPILLWAY_CHECK(spec_->type == MetricType::kGauge);
      return prometheus::BuildGauge().Name(spec_->name).Help(spec_->help).Register(registry);
    } else {
      SPILLWAY_CHECK(spec_->type == MetricType::kHistogram);
      return prometheus::BuildHistogram().Name(spec_->name).Help(spec_->help).Register(registry);
    }
  }

  void AddCombinations(const FixedLabels& fixed, const std::map<std::string, std::string>& labels,
                       std::vector<std::string>* values, size_t index) {
    if (index == spec_->labels.size()) {
      if constexpr (std::is_same_v<T, prometheus::Histogram>) {
        entries_.push_back({*values, &family_->Add(labels, spec_->buckets)});
      } else {
        entries_.push_back({*values, &family_->Add(labels)});
      }
      return;
    }
    const LabelSpec& label = spec_->labels[index];
    std::map<std::string, std::string> next = labels;
    if (const auto found = fixed.find(label.name); found != fixed.end()) {
      next[label.name] = found->second;
      AddCombinations(fixed, next, values, index + 1);
      return;
    }
    SPILLWAY_CHECK(!label.values.empty());
    for (const std::string& value : label.values) {
      next[label.name] = value;
      values->push_back(value);
      AddCombinations(fixed, next, values, index + 1);
      values->pop_back();
    }
  }

  const MetricSpec* spec_;
  prometheus::Family<T>* family_ = nullptr;
  std::vector<Entry> entries_;
  mutable std::atomic<bool> warned_{false};
};

using CounterSeries = Series<prometheus::Counter>;
using GaugeSeries = Series<prometheus::Gauge>;
using HistogramSeries = Series<prometheus::Histogram>;

inline void Add(const CounterSeries& series, std::initializer_list<std::string_view> values,
                double amount = 1) {
  if (auto* metric = series.Find(values)) metric->Increment(amount);
}
inline void Set(const GaugeSeries& series, std::initializer_list<std::string_view> values, double value) {
  if (auto* metric = series.Find(values)) metric->Set(value);
}
inline void Observe(const HistogramSeries& series, std::initializer_list<std::string_view> values,
                    double value) {
  if (auto* metric = series.Find(values)) metric->Observe(value);
}

}  // namespace spillway::telemetry
