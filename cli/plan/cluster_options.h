// The options that `plan`, `up` and `run` share, and what they mean for a model on this machine: the device,
// the budgets, the threads and the plan. Starts nothing.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "device/files.h"
#include "engine/model/config.h"
#include "engine/plan/plan.h"

namespace spillway::cli {

struct ClusterOptions {
  std::string model;
  std::string n_gpu_layers = "auto";
  std::string vram_budget;
  std::string ram_budget;
  std::string device;  // empty: decided by the machine
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  uint32_t ctx_size = 0;
  uint32_t parallel = 4;
  uint32_t cpu_stages = 1;
  uint32_t threads = 0;  // 0 = this process's processors shared among the workers
};

std::vector<Option> ClusterOptionRows(ClusterOptions* options);

// The options made definite.
struct ClusterPlan {
  Plan plan;
  PlanOptions options;  // what the plan was made from: budgets and threads of every worker
  std::string device;   // of the GPU worker: "host"
  std::string note;     // one line on a device that was chosen for the user; empty when they chose it
};

// InvalidArgument: options that contradict each other or the model. FailedPrecondition: a named cause.
// ResourceExhausted: the plan refuses.
absl::StatusOr<ClusterPlan> MakeClusterPlan(const ClusterOptions& options, const Model& model,
                                            const device::Root& root);

// Root of /proc and /sys: the system's, or SPILLWAY_SYSTEM_ROOT for tests of other machines.
device::Root SystemRoot();

// The exit code of a failed MakeClusterPlan: 2, 3, 4 or 1.
int FailPlan(const absl::Status& status);

}  // namespace spillway::cli
