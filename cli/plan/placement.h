// A plan as people and scripts read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/plan/cluster_options.h"

namespace spillway::cli {

// "cpu-worker-0", "gpu-worker".
std::string WorkerName(const PlannedStage& stage);

// Which layers on which worker, bytes by purpose, budgets, context and sequences.
std::string PlacementTable(const Model& model, const ClusterPlan& cluster);
nlohmann::ordered_json PlacementJson(const Model& model, const ClusterPlan& cluster);

}  // namespace spillway::cli
