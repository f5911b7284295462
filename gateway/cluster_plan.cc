// See cluster_plan.h.
#include "gateway/cluster_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "engine/base/status.h"
#include "engine/stage/units_text.h"
#include "rpc/stage_client.h"

namespace spillway::gateway {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDescribeDeadline{1'000};
constexpr std::chrono::milliseconds kRetryInterval{100};

struct Worker {
  std::string name;
  std::string target;
  WorkerProfile profile;
};

absl::StatusOr<WorkerProfile> DescribeWorker(const Worker& worker, const std::string& role,
                                             Clock::time_point deadline,
                                             const std::function<bool()>& interrupted) {
  rpc::StageClient client(worker.name, worker.target);
  absl::Status last;
  do {
    if (interrupted()) return absl::CancelledError("interrupted while waiting for workers");
    const absl::StatusOr<v1::DescribeReply> reply = client.Describe(kDescribeDeadline);
    if (reply.ok()) {
      if (reply->role() != role) {
        return FailedPrecondition("{} at {} is a {} worker; check --gpu-worker and --cpu-worker", worker.name,
                                  worker.target, reply->role());
      }
      WorkerProfile profile;
      profile.device = reply->profile().device();
      profile.threads = std::max(1u, reply->profile().threads());
      if (reply->profile().budget_bytes() > 0) profile.budget_bytes = reply->profile().budget_bytes();
      return profile;
    }
    last = reply.status();
    std::this_thread::sleep_for(kRetryInterval);
  } while (Clock::now() < deadline);
  return Unavailable("{} at {} did not answer in time ({}); is it running?", worker.name, worker.target,
                     MessageOf(last));
}

absl::Status DescribeAll(std::vector<Worker>& cpu, Worker* gpu, const GatewayOptions& options,
                         const std::function<bool()>& interrupted) {
  const Clock::time_point deadline = Clock::now() + options.worker_timeout;
  for (Worker& worker : cpu) {
    SPILLWAY_ASSIGN_OR_RETURN(worker.profile, DescribeWorker(worker, "cpu", deadline, interrupted));
  }
  if (gpu != nullptr) {
    SPILLWAY_ASSIGN_OR_RETURN(gpu->profile, DescribeWorker(*gpu, "gpu", deadline, interrupted));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterPlan> PlanCluster(const GatewayOptions& options, const Model& model,
                                        const std::function<bool()>& interrupted) {
  std::vector<Worker> cpu;
  for (const std::string& target : options.cpu_workers) {
    cpu.push_back({fmt::format("cpu-worker-{}", cpu.size()), target, {}});
  }
  Worker gpu{"gpu-worker", options.gpu_worker, {}};
  const bool has_gpu = !options.gpu_worker.empty();
  SPILLWAY_RETURN_IF_ERROR(DescribeAll(cpu, has_gpu ? &gpu : nullptr, options, interrupted));

  PlanOptions plan_options;
  SPILLWAY_RETURN_IF_ERROR(ParseGpuLayers(options.n_gpu_layers, &plan_options));
  plan_options.n_ctx = options.ctx_size;
  plan_options.parallel = options.parallel;
  plan_options.max_rows = options.max_rows;
  plan_options.cache_type_k = options.cache_type_k;
  plan_options.cache_type_v = options.cache_type_v;
  // Without a GPU worker the last CPU worker takes its place in the plan: an equal share of the layers, and
  // the head.
  Worker head = has_gpu ? gpu : cpu.back();
  if (!has_gpu) {
    const auto workers = static_cast<uint32_t>(cpu.size());
    plan_options.gpu_layers = PlanOptions::GpuLayers::kCount;
    plan_options.n_gpu_layers = (model.config.n_layer + workers - 1) / workers;
    cpu.pop_back();
  }
  plan_options.gpu = head.profile;
  for (const Worker& worker : cpu) plan_options.cpu.push_back(worker.profile);

  ClusterPlan result;
  SPILLWAY_ASSIGN_OR_RETURN(result.plan, MakePlan(model, plan_options));
  for (const PlannedStage& planned : result.plan.stages) {
    const Worker& worker = planned.gpu ? head : cpu.at(planned.worker);
    StageSetup setup =
        MakeStageSetup(planned, worker.profile.device, model.file->identity(), worker.name, worker.target);
    setup.gpu = planned.gpu && has_gpu;
    setup.data_plane = options.data_plane;
    spdlog::info("event=planned stage={} worker={} layers={} embedding={} head={} bytes={} kv_pages={}",
                 result.stages.size(), worker.name,
                 FormatLayers(planned.units.layer_begin, planned.units.layer_end), planned.units.embedding,
                 planned.units.head, planned.bytes.Total(), planned.options.kv_pages);
    result.stages.push_back(std::move(setup));
  }
  return result;
}

}  // namespace spillway::gateway
