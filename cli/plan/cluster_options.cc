// See cluster_options.h.
#include "cli/plan/cluster_options.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "cli/exit_code.h"
#include "device/host.h"
#include "engine/base/status.h"
#include "engine/stage/units_text.h"
#include "truth/device_checks.h"
#include "truth/verdict.h"

namespace spillway::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Small, so that layers really spill on a machine without a GPU.
constexpr uint64_t kDefaultHostVram = 64 * kMiB;

absl::Status BackendMissing(const std::string& what) {
  const truth::CauseInfo* cause = truth::FindCause("backend_missing");
  return FailedPrecondition(
      "{} cause={} ({}): CUDA is not built yet, and the host device is never taken silently. Remedy: give "
      "--device host --vram-budget 64MiB to run the GPU worker on the CPU within that budget",
      what, cause->name, cause->id);
}

// A broken driver is named before the missing backend: it would be next.
absl::Status DeviceUnusable(const truth::Examination& examined, const std::string& what) {
  const truth::DeviceCheck* obstacle = truth::FirstObstacle(examined.checks);
  if (obstacle == nullptr) return BackendMissing(what);
  return FailedPrecondition("{} {}", what, truth::Describe(*obstacle));
}

truth::Examination Examine(const device::Root& root) {
  device::GpuOptions gpu = device::GpuOptionsFromEnvironment();
  gpu.root = root;
  return truth::ExamineDevices([&gpu] { return device::ReadGpu(gpu); }, {}, truth::kStartPatience);
}

// Checks --device against the machine; says in `note` when it chooses.
absl::Status ChooseDevice(const ClusterOptions& options, const device::Root& root, ClusterPlan* cluster) {
  if (options.device.empty()) {
    const truth::Examination examined = Examine(root);
    if (examined.facts.present()) return DeviceUnusable(examined, "this machine has an NVIDIA device.");
    cluster->note = "no NVIDIA device on this machine: the GPU worker runs as --device host";
  } else if (options.device.rfind("cuda", 0) == 0) {
    return DeviceUnusable(Examine(root), "--device " + options.device + ":");
  } else if (options.device != "host") {
    return InvalidArgument("--device {}: it is host or cuda:N", options.device);
  } else if (options.vram_budget.empty()) {
    return InvalidArgument("--device host needs --vram-budget: a host has no VRAM to take the limit from");
  }
  cluster->device = "host";
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ParseBudget(const char* name, const std::string& text) {
  const auto bytes = ParseBytes(text);
  if (!bytes.ok()) return InvalidArgument("{}: {}", name, MessageOf(bytes.status()));
  if (*bytes == 0) return InvalidArgument("{} {}: no bytes at all", name, text);
  return *bytes;
}

// As a user would write it: whole MiB where it is, else bytes.
std::string BudgetArgument(uint64_t bytes) {
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : std::to_string(bytes);
}

// What the head alone needs on the GPU worker, whatever the budgets are.
uint64_t HeadBytes(const Model& model, PlanOptions options) {
  options.gpu_layers = PlanOptions::GpuLayers::kCount;
  options.n_gpu_layers = 0;
  options.gpu.budget_bytes = Ledger::kUnlimited;
  options.cpu.assign(1, WorkerProfile{});
  const auto plan = MakePlan(model, options);
  return plan.ok() ? plan->stages.back().bytes.Total() : 0;
}

absl::Status SetBudgets(const ClusterOptions& options, const Model& model, const device::HostFacts& host,
                        ClusterPlan* cluster) {
  PlanOptions& plan = cluster->options;
  if (options.vram_budget.empty()) {
    // Whole MiB, so that the line can be copied.
    const uint64_t head = (HeadBytes(model, plan) + kMiB - 1) / kMiB * kMiB;
    plan.gpu.budget_bytes = std::max(kDefaultHostVram, head);
    cluster->note += " --vram-budget " + BudgetArgument(plan.gpu.budget_bytes);
  } else {
    SPILLWAY_ASSIGN_OR_RETURN(plan.gpu.budget_bytes, ParseBudget("--vram-budget", options.vram_budget));
    if (!cluster->note.empty()) cluster->note += " --vram-budget " + options.vram_budget;
  }
  uint64_t ram = Ledger::kUnlimited;
  if (!options.ram_budget.empty()) {
    SPILLWAY_ASSIGN_OR_RETURN(ram, ParseBudget("--ram-budget", options.ram_budget));
  } else if (host.AvailableBytes() > 0 && !plan.cpu.empty()) {
    // A host device takes its budget from the same RAM.
    const uint64_t available = host.AvailableBytes();
    ram = std::max<uint64_t>(1, (available - std::min(available, plan.gpu.budget_bytes)) / plan.cpu.size());
  }
  for (WorkerProfile& worker : plan.cpu) worker.budget_bytes = ram;
  return absl::OkStatus();
}

void SetThreads(uint32_t threads, PlanOptions* options) {
  options->gpu.threads = threads;
  for (WorkerProfile& worker : options->cpu) worker.threads = threads;
}

// The processors are shared among the stages that the plan really has; how many it has depends a little on
// the threads, because each takes work space.
absl::Status PlanWithSharedThreads(const Model& model, uint32_t processors, ClusterPlan* cluster) {
  const auto workers = static_cast<uint32_t>(cluster->options.cpu.size()) + 1;
  absl::Status refused;
  for (uint32_t stages = 1; stages <= workers; ++stages) {
    SetThreads(std::max(1u, processors / stages), &cluster->options);
    auto plan = MakePlan(model, cluster->options);
    refused = plan.status();
    if (plan.ok() && plan->stages.size() <= stages) {
      cluster->plan = *std::move(plan);
      return absl::OkStatus();
    }
  }
  return refused;
}

}  // namespace

std::vector<Option> ClusterOptionRows(ClusterOptions* options) {
  return {
      Required({"-m,--model,MODEL", &options->model,
                "GGUF file, or ollama:NAME[:TAG] of Ollama's store on this machine"}),
      {"--n-gpu-layers", &options->n_gpu_layers,
       "auto, all, or how many of the last blocks are held by the GPU worker (also -ngl)"},
      {"--vram-budget", &options->vram_budget, "Memory of the GPU worker: 64MiB, 8GiB"},
      {"--ram-budget", &options->ram_budget,
       "Memory of each CPU worker (default: an equal share of what is available)"},
      {"-c,--ctx-size", &options->ctx_size,
       "Tokens per sequence (default: 4096, or the model's context if that is shorter)", 1, 1 << 24},
      {"--parallel", &options->parallel, "Sequences the memory is sized for (also -np)", 1, 4096},
      OneOf({"--cache-type-k", &options->cache_type_k,
             "Keys in pages: f16, or q8_0 at half the bytes (also -ctk)"},
            {"f16", "q8_0"}),
      OneOf({"--cache-type-v", &options->cache_type_v, "Values in pages (also -ctv)"}, {"f16", "q8_0"}),
      {"--cpu-stages", &options->cpu_stages, "CPU workers in a row; 0 = none", 0, 64},
      {"-t,--threads", &options->threads,
       "Compute threads of each worker (default: the processors shared among the stages)", 1, 1024},
      {"--device", &options->device, "Device of the GPU worker: host (CPU within --vram-budget) or cuda:N"},
  };
}

absl::StatusOr<ClusterPlan> MakeClusterPlan(const ClusterOptions& options, const Model& model,
                                            const device::Root& root) {
  ClusterPlan cluster;
  SPILLWAY_RETURN_IF_ERROR(ChooseDevice(options, root, &cluster));
  const device::HostFacts host = device::ReadHost(root);
  const uint32_t processors =
      host.cpus_allowed > 0 ? host.cpus_allowed : std::max(1u, std::thread::hardware_concurrency());
  PlanOptions& plan = cluster.options;
  SPILLWAY_RETURN_IF_ERROR(ParseGpuLayers(options.n_gpu_layers, &plan));
  plan.n_ctx = options.ctx_size;
  plan.parallel = options.parallel;
  SPILLWAY_ASSIGN_OR_RETURN(plan.cache_type_k, ParseCacheType(options.cache_type_k));
  SPILLWAY_ASSIGN_OR_RETURN(plan.cache_type_v, ParseCacheType(options.cache_type_v));
  plan.gpu.device = cluster.device;
  plan.cpu.resize(options.cpu_stages);
  SetThreads(std::max(1u, options.threads), &plan);
  SPILLWAY_RETURN_IF_ERROR(SetBudgets(options, model, host, &cluster));
  if (options.threads > 0) {
    SPILLWAY_ASSIGN_OR_RETURN(cluster.plan, MakePlan(model, plan));
  } else {
    SPILLWAY_RETURN_IF_ERROR(PlanWithSharedThreads(model, processors, &cluster));
  }
  // The host device's VRAM is this machine's RAM.
  uint64_t bytes = 0;
  for (const PlannedStage& stage : cluster.plan.stages) bytes += stage.bytes.Total();
  if (cluster.device == "host" && host.AvailableBytes() > 0 && bytes > host.AvailableBytes()) {
    return ResourceExhausted(
        "all stages on this machine need {}, {} of RAM are available; lower --ctx-size, --parallel or "
        "--vram-budget, or take a smaller quantization",
        FormatBytesHuman(bytes), FormatBytesHuman(host.AvailableBytes()));
  }
  return cluster;
}

device::Root SystemRoot() {
  const char* root = std::getenv("SPILLWAY_SYSTEM_ROOT");
  return device::Root(root == nullptr ? "" : root);
}

int FailPlan(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return Fail(kUsage, MessageOf(status));
  if (absl::IsResourceExhausted(status)) return Fail(kRefused, "refused by the plan: " + MessageOf(status));
  if (absl::IsFailedPrecondition(status)) return Fail(kNamedCause, MessageOf(status));
  return FailWith(status);
}

}  // namespace spillway::cli
