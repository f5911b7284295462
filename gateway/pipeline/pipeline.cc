// See pipeline.h.
#include "gateway/pipeline/pipeline.h"

#include <map>

#include "rpc/convert.h"

namespace spillway::gateway {

namespace {

std::string_view Role(const StageSetup& setup) { return setup.gpu ? "gpu" : "cpu"; }
// The memory that a stage's weights are in: a host device has no VRAM, whatever role it plays.
std::string_view MemoryOf(const StageSetup& setup) {
  return setup.expected.device() == "cuda" ? "vram" : "ram";
}

// The states that the metric knows: what is on its way is not reachable for requests yet.
std::string_view MetricState(StageCondition condition) {
  switch (condition) {
    case StageCondition::kReady:
    case StageCondition::kDraining:
    case StageCondition::kDegraded:
    case StageCondition::kIncompatible:
      return ConditionName(condition);
    default:
      return ConditionName(StageCondition::kUnreachable);
  }
}

}  // namespace

StageSetup MakeStageSetup(const PlannedStage& planned, const std::string& device, const std::string& identity,
                          const std::string& name, const std::string& target) {
  StageSetup setup;
  setup.name = name;
  setup.target = target;
  setup.gpu = planned.gpu;
  setup.identity = identity;
  rpc::ToProto(planned.units, setup.expected.mutable_units());
  rpc::ToProto(planned.options, setup.expected.mutable_options());
  rpc::ToProto(planned.bytes, setup.expected.mutable_memory());
  setup.expected.set_device(device);
  return setup;
}

Pipeline::Pipeline(std::vector<StageSetup> setups, uint64_t epoch, telemetry::GatewayMetrics* metrics)
    : epoch_(epoch), metrics_(metrics) {
  for (StageSetup& setup : setups) {
    const auto index = static_cast<uint32_t>(stages_.size());
    stages_.push_back(std::make_unique<StageSupervisor>(std::move(setup), index, epoch));
  }
}

Pipeline::~Pipeline() { Stop(); }

void Pipeline::Start(StageEventSink& sink) {
  Publish();
  for (auto& stage : stages_) stage->Start(sink, [this] { Publish(); });
}

void Pipeline::Stop() {
  for (auto& stage : stages_) stage->Stop();
}

void Pipeline::Publish() {
  if (metrics_ == nullptr) return;
  std::map<std::pair<std::string_view, std::string_view>, double> workers;
  struct Layers {
    double planned = 0, actual = 0;
  };
  std::map<std::pair<std::string_view, std::string_view>, Layers> layers;
  std::map<std::string_view, double> weights;
  for (const auto& stage : stages_) {
    const StageSetup& setup = stage->setup();
    const StageView view = stage->View();
    for (const std::string_view state : {"ready", "draining", "degraded", "unreachable", "incompatible"}) {
      workers[{Role(setup), state}] += MetricState(view.condition) == state ? 1 : 0;
    }
    const bool serving =
        view.condition == StageCondition::kReady || view.condition == StageCondition::kDraining;
    const v1::StageUnits& units = setup.expected.units();
    Layers& sum = layers[{Role(setup), MemoryOf(setup)}];
    sum.planned += units.layer_end() - units.layer_begin();
    const v1::StageUnits& loaded = view.description.loaded();
    if (serving) sum.actual += loaded.layer_end() - loaded.layer_begin();
    weights[MemoryOf(setup)] += serving ? static_cast<double>(view.description.allocated().weights()) : 0;
    if (serving) metrics_->WorkerHeartbeat(Role(setup), setup.name, view.described_unix_seconds);
  }
  for (const auto& [key, count] : workers) metrics_->SetWorkers(key.first, key.second, count);
  for (const auto& [key, sum] : layers) metrics_->SetLayers(key.first, key.second, sum.planned, sum.actual);
  for (const auto& [memory, bytes] : weights) metrics_->SetWeightsBytes(memory, bytes);
}

}  // namespace spillway::gateway
