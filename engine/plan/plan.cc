#include "engine/plan/plan.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/stage/units_text.h"

namespace spillway {
namespace {

// More sequences than the pool is sized for may be open while pages last; but recurrent state is as large for
// a short sequence as for a long one, so where layers have it no more than planned for.
constexpr uint32_t kSequencesPerParallel = 4;
constexpr uint32_t kMaxSequences = 256;
constexpr uint32_t kDefaultContext = 4096;

StageOptions OptionsOf(const Model& model, const PlanOptions& options, uint32_t n_ctx,
                       const WorkerProfile& worker) {
  StageOptions stage;
  stage.n_ctx = n_ctx;
  stage.kv_pages = options.parallel * PagesFor(n_ctx);
  stage.max_sequences = std::max(
      options.parallel, std::min({options.parallel * kSequencesPerParallel, stage.kv_pages, kMaxSequences}));
  if (HasRecurrent(model.config, 0, model.config.n_layer)) stage.max_sequences = options.parallel;
  stage.max_rows = options.max_rows;
  stage.threads = worker.threads;
  stage.cache_type_k = options.cache_type_k;
  stage.cache_type_v = options.cache_type_v;
  return stage;
}

absl::Status CheckOptions(const Model& model, const PlanOptions& options) {
  const uint32_t n_layer = model.config.n_layer;
  if (options.n_ctx == 0 || options.n_ctx > (1u << 24)) {
    return InvalidArgument("context {} is outside [1, {}]", options.n_ctx, 1u << 24);
  }
  if (model.config.n_ctx_train != 0 && options.n_ctx > model.config.n_ctx_train) {
    return InvalidArgument("context {} is longer than the {} tokens the model was trained for", options.n_ctx,
                           model.config.n_ctx_train);
  }
  if (options.parallel == 0 || options.parallel > 4096) {
    return InvalidArgument("parallel {} is outside [1, 4096]", options.parallel);
  }
  if (uint64_t{options.parallel} * PagesFor(options.n_ctx) > (1u << 24)) {
    return InvalidArgument("{} sequences of {} tokens are more than {} pages", options.parallel,
                           options.n_ctx, 1u << 24);
  }
  if (options.max_rows == 0 || options.max_rows > 4096) {
    return InvalidArgument("max-rows {} is outside [1, 4096]", options.max_rows);
  }
  if (options.gpu_layers == PlanOptions::GpuLayers::kCount && options.n_gpu_layers > n_layer) {
    return InvalidArgument("--n-gpu-layers {} is more than the model's {} layers; `all` takes them all",
                           options.n_gpu_layers, n_layer);
  }
  if (options.cpu.size() > n_layer) {
    return InvalidArgument("{} CPU workers in a row are more than the model's {} layers", options.cpu.size(),
                           n_layer);
  }
  return absl::OkStatus();
}

// The stages for a given number of resident layers, with their bytes; budgets are not looked at.
absl::StatusOr<Plan> Place(const Model& model, const PlanOptions& options, uint32_t n_ctx,
                           uint32_t n_gpu_layers) {
  const uint32_t n_layer = model.config.n_layer;
  const uint32_t spilled = n_layer - n_gpu_layers;
  // CPU workers that get no layer stay out of the pipeline: a hop for the embedding alone would buy nothing.
  const uint32_t cpu_stages = std::min<uint32_t>(spilled, static_cast<uint32_t>(options.cpu.size()));
  Plan plan;
  plan.n_layer = n_layer;
  plan.n_gpu_layers = n_gpu_layers;
  plan.n_ctx = n_ctx;
  plan.parallel = options.parallel;
  for (uint32_t i = 0; i < cpu_stages; ++i) {
    PlannedStage stage;
    stage.worker = i;
    stage.units = {spilled * i / cpu_stages, spilled * (i + 1) / cpu_stages, i == 0, false};
    stage.options = OptionsOf(model, options, n_ctx, options.cpu[i]);
    plan.stages.push_back(stage);
  }
  PlannedStage gpu;
  gpu.gpu = true;
  gpu.units = {spilled, n_layer, cpu_stages == 0, true};
  gpu.options = OptionsOf(model, options, n_ctx, options.gpu);
  plan.stages.push_back(gpu);
  for (PlannedStage& stage : plan.stages) {
    SPILLWAY_ASSIGN_OR_RETURN(stage.bytes, cpu::HostStageBytes(model, stage.units, stage.options));
  }
  return plan;
}

uint64_t GpuBytes(const Plan& plan) { return plan.stages.back().bytes.Total(); }

// The most resident layers that fit the GPU worker's budget, or nullopt when not even the head does.
absl::StatusOr<std::optional<uint32_t>> MostLayers(const Model& model, const PlanOptions& options,
                                                   uint32_t n_ctx) {
  std::optional<uint32_t> best;
  for (uint32_t n = 0; n <= model.config.n_layer; ++n) {
    SPILLWAY_ASSIGN_OR_RETURN(const Plan plan, Place(model, options, n_ctx, n));
    // Without spilled layers the embedding moves along, so the cost need not rise evenly: look at every
    // count.
    if (GpuBytes(plan) <= options.gpu.budget_bytes) best = n;
  }
  return best;
}

// The longest context, in pages' steps, with which `n_gpu_layers` fit; 0 when none does.
absl::StatusOr<uint32_t> LongestContext(const Model& model, const PlanOptions& options,
                                        uint32_t n_gpu_layers) {
  uint32_t fits = 0;
  uint32_t too_long = PagesFor(options.n_ctx);
  while (fits + 1 < too_long) {
    const uint32_t middle = (fits + too_long) / 2;
    SPILLWAY_ASSIGN_OR_RETURN(const Plan plan, Place(model, options, middle * kPageTokens, n_gpu_layers));
    (GpuBytes(plan) <= options.gpu.budget_bytes ? fits : too_long) = middle;
  }
  return fits * kPageTokens;
}

absl::Status DoesNotFit(const Model& model, const PlanOptions& options, uint32_t n_gpu_layers) {
  SPILLWAY_ASSIGN_OR_RETURN(const Plan plan, Place(model, options, options.n_ctx, n_gpu_layers));
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t context, LongestContext(model, options, n_gpu_layers));
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint32_t> layers, MostLayers(model, options, options.n_ctx));
  std::string advice;
  if (layers.has_value()) advice += fmt::format("; {} layers would fit at this context", *layers);
  if (context > 0) {
    advice += fmt::format("; with {} layers a context of {} tokens would fit", n_gpu_layers, context);
  }
  PlanOptions codes = options;
  codes.cache_type_k = codes.cache_type_v = CacheType::kQ8_0;
  SPILLWAY_ASSIGN_OR_RETURN(const Plan smaller, Place(model, codes, options.n_ctx, n_gpu_layers));
  if (GpuBytes(smaller) <= options.gpu.budget_bytes) {
    advice += "; with --cache-type-k q8_0 --cache-type-v q8_0 they would fit";
  }
  if (advice.empty()) advice = "; raise the budget, or take a smaller quantization";
  return ResourceExhausted(
      "{} of {} layers and the head need {} ({} bytes) of VRAM for {} x {} tokens, the budget is {} ({} "
      "bytes){}",
      n_gpu_layers, plan.n_layer, FormatBytesHuman(GpuBytes(plan)), GpuBytes(plan), options.parallel,
      options.n_ctx, FormatBytesHuman(options.gpu.budget_bytes), options.gpu.budget_bytes, advice);
}

absl::Status CheckCpuBudgets(const PlanOptions& options, const Plan& plan) {
  if (plan.spilled() && plan.stages.size() == 1) {
    return ResourceExhausted(
        "{} of {} layers do not fit the VRAM budget of {} and there is no CPU worker to take them; add a CPU "
        "worker or "
        "raise the budget",
        plan.n_layer - plan.n_gpu_layers, plan.n_layer, FormatBytesHuman(options.gpu.budget_bytes));
  }
  for (const PlannedStage& stage : plan.stages) {
    if (stage.gpu || stage.bytes.Total() <= options.cpu[stage.worker].budget_bytes) continue;
    return ResourceExhausted("cpu-worker-{} needs {} ({} bytes) of RAM for {}, its budget is {}",
                             stage.worker, FormatBytesHuman(stage.bytes.Total()), stage.bytes.Total(),
                             DescribeUnits(stage.units),
                             FormatBytesHuman(options.cpu[stage.worker].budget_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Model& model, const PlanOptions& requested) {
  PlanOptions options = requested;
  if (options.n_ctx == 0) {
    options.n_ctx =
        model.config.n_ctx_train == 0 ? kDefaultContext : std::min(kDefaultContext, model.config.n_ctx_train);
  }
  SPILLWAY_RETURN_IF_ERROR(CheckOptions(model, options));
  const bool automatic = options.gpu_layers == PlanOptions::GpuLayers::kAuto;
  uint32_t n_gpu_layers =
      options.gpu_layers == PlanOptions::GpuLayers::kCount ? options.n_gpu_layers : model.config.n_layer;
  if (automatic) {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, MostLayers(model, options, options.n_ctx));
    if (!most.has_value()) return DoesNotFit(model, options, 0);
    n_gpu_layers = *most;
  }
  SPILLWAY_ASSIGN_OR_RETURN(Plan plan, Place(model, options, options.n_ctx, n_gpu_layers));
  if (GpuBytes(plan) > options.gpu.budget_bytes) return DoesNotFit(model, options, n_gpu_layers);
  SPILLWAY_RETURN_IF_ERROR(CheckCpuBudgets(options, plan));
  return plan;
}

absl::Status ParseGpuLayers(const std::string& text, PlanOptions* options) {
  if (text == "auto" || text == "all") {
    options->gpu_layers = text == "auto" ? PlanOptions::GpuLayers::kAuto : PlanOptions::GpuLayers::kAll;
    return absl::OkStatus();
  }
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("n-gpu-layers '{}' is neither auto, all nor a number", text);
  }
  options->gpu_layers = PlanOptions::GpuLayers::kCount;
  options->n_gpu_layers = count;
  return absl::OkStatus();
}

}  // namespace spillway
