// From the configured workers to the stages of the pipeline: asks each worker what it has, and has the
// planner place the model on them.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <vector>

#include "engine/model/config.h"
#include "engine/plan/plan.h"
#include "gateway/options.h"
#include "gateway/pipeline/pipeline.h"

namespace spillway::gateway {

struct ClusterPlan {
  Plan plan;
  std::vector<StageSetup> stages;  // one per stage of the plan, in order
};

// Waits for every configured worker up to the worker timeout (Unavailable names those that did not answer).
// Otherwise MakePlan's errors. Without a GPU worker the layers are divided evenly over the CPU workers and
// the last one holds the head.
absl::StatusOr<ClusterPlan> PlanCluster(const GatewayOptions& options, const Model& model,
                                        const std::function<bool()>& interrupted);

}  // namespace spillway::gateway
