// See placement.h.
#include "cli/plan/placement.h"

#include <fmt/core.h>

#include "cli/text_table.h"
#include "engine/stage/units_text.h"

namespace spillway::cli {
namespace {

using Json = nlohmann::ordered_json;

const WorkerProfile& ProfileOf(const PlannedStage& stage, const PlanOptions& options) {
  return stage.gpu ? options.gpu : options.cpu[stage.worker];
}

std::string BudgetText(uint64_t bytes) {
  return bytes == Ledger::kUnlimited ? "unlimited" : FormatBytesHuman(bytes);
}

// Purposes that any stage has bytes for, in the ledger's order.
std::vector<Purpose> UsedPurposes(const Plan& plan) {
  std::vector<Purpose> used;
  for (size_t i = 0; i < kPurposes; ++i) {
    const auto purpose = static_cast<Purpose>(i);
    for (const PlannedStage& stage : plan.stages) {
      if (stage.bytes[purpose] == 0) continue;
      used.push_back(purpose);
      break;
    }
  }
  return used;
}

}  // namespace

std::string WorkerName(const PlannedStage& stage) {
  return stage.gpu ? "gpu-worker" : fmt::format("cpu-worker-{}", stage.worker);
}

std::string PlacementTable(const Model& model, const ClusterPlan& cluster) {
  const Plan& plan = cluster.plan;
  std::vector<std::string> header = {"WORKER", "DEVICE", "HOLDS", "LAYERS"};
  const std::vector<Purpose> purposes = UsedPurposes(plan);
  for (const Purpose purpose : purposes) header.emplace_back(PurposeName(purpose));
  header.insert(header.end(), {"TOTAL", "BUDGET", "THREADS"});
  TextTable table(header);
  for (const PlannedStage& stage : plan.stages) {
    const WorkerProfile& profile = ProfileOf(stage, cluster.options);
    std::vector<std::string> row = {WorkerName(stage), profile.device, DescribeUnits(stage.units),
                                    std::to_string(stage.units.Layers())};
    for (const Purpose purpose : purposes) row.push_back(FormatBytesHuman(stage.bytes[purpose]));
    row.push_back(FormatBytesHuman(stage.bytes.Total()));
    row.push_back(BudgetText(profile.budget_bytes));
    row.push_back(std::to_string(profile.threads));
    table.Add(row);
  }
  return fmt::format(
      "{} ({}, {} layers): {} on the GPU worker, {} spilled; context {} tokens x {} sequence(s)\n{}",
      model.config.name, model.config.architecture, plan.n_layer, plan.n_gpu_layers,
      plan.n_layer - plan.n_gpu_layers, plan.n_ctx, plan.parallel, table.Render());
}

Json PlacementJson(const Model& model, const ClusterPlan& cluster) {
  const Plan& plan = cluster.plan;
  Json stages = Json::array();
  for (const PlannedStage& stage : plan.stages) {
    const WorkerProfile& profile = ProfileOf(stage, cluster.options);
    Json bytes;
    for (size_t i = 0; i < kPurposes; ++i) bytes[std::string(kPurposeNames[i])] = stage.bytes.bytes[i];
    bytes["total"] = stage.bytes.Total();
    Json budget = profile.budget_bytes;
    if (profile.budget_bytes == Ledger::kUnlimited) budget = nullptr;
    stages.push_back({{"worker", WorkerName(stage)},
                      {"device", profile.device},
                      {"layer_begin", stage.units.layer_begin},
                      {"layer_end", stage.units.layer_end},
                      {"embedding", stage.units.embedding},
                      {"head", stage.units.head},
                      {"bytes", bytes},
                      {"budget_bytes", budget},
                      {"threads", profile.threads},
                      {"kv_pages", stage.options.kv_pages},
                      {"max_sequences", stage.options.max_sequences},
                      {"cache_type_k", CacheTypeName(stage.options.cache_type_k)},
                      {"cache_type_v", CacheTypeName(stage.options.cache_type_v)}});
  }
  return {{"model", model.config.name},
          {"title", model.config.title},
          {"identity", model.file->identity()},
          {"architecture", model.config.architecture},
          {"n_layer", plan.n_layer},
          {"n_gpu_layers", plan.n_gpu_layers},
          {"spilled_layers", plan.n_layer - plan.n_gpu_layers},
          {"n_ctx", plan.n_ctx},
          {"parallel", plan.parallel},
          {"stages", stages}};
}

}  // namespace spillway::cli
