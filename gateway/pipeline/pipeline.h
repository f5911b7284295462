// The ordered stages of the plan, each kept in service by its supervisor, and what the metrics and the status
// say of them. Knows nothing of sequences and tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "gateway/pipeline/stage_supervisor.h"
#include "telemetry/gateway_metrics.h"

namespace spillway::gateway {

// A stage of the plan for the worker `name` at `target`.
StageSetup MakeStageSetup(const PlannedStage& planned, const std::string& device, const std::string& identity,
                          const std::string& name, const std::string& target);

// Thread-safe.
class Pipeline {
 public:
  // `metrics` may be null and outlives the pipeline.
  Pipeline(std::vector<StageSetup> setups, uint64_t epoch, telemetry::GatewayMetrics* metrics);
  ~Pipeline();  // Stop

  void Start(StageEventSink& sink);
  void Stop();  // afterwards nothing is posted any more

  uint32_t size() const { return static_cast<uint32_t>(stages_.size()); }
  uint64_t epoch() const { return epoch_; }
  StageLink* link(uint32_t index) { return stages_[index].get(); }
  const StageSetup& setup(uint32_t index) const { return stages_[index]->setup(); }
  StageView View(uint32_t index) const { return stages_[index]->View(); }

 private:
  void Publish();

  const uint64_t epoch_;
  telemetry::GatewayMetrics* const metrics_;
  std::vector<std::unique_ptr<StageSupervisor>> stages_;
};

}  // namespace spillway::gateway
