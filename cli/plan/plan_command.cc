// `spillway plan`: the placement of a model on this machine, before anything is started.
#include <fmt/core.h>

#include <memory>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/plan/cluster_options.h"
#include "cli/plan/model_source.h"
#include "cli/plan/placement.h"

namespace spillway::cli {
namespace {

struct PlanCommandOptions {
  ClusterOptions cluster;
  bool json = false;
};

int RunPlan(const PlanCommandOptions& options) {
  const auto source = FindModel(options.cluster.model, OllamaStores());
  if (!source.ok()) return FailWith(source.status());
  const auto model = LoadModelFrom(*source);
  if (!model.ok()) return FailWith(model.status());
  const auto cluster = MakeClusterPlan(options.cluster, *model, SystemRoot());
  if (!cluster.ok()) return FailPlan(cluster.status());
  if (!cluster->note.empty()) fmt::print(stderr, "spillway: {}\n", cluster->note);
  const std::string text =
      options.json
          ? PlacementJson(*model, *cluster).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                "\n"
          : PlacementTable(*model, *cluster);
  fmt::print("{}", text);
  return std::fflush(stdout) == 0 ? kOk : Fail(kFailed, "standard output cannot be written");
}

}  // namespace

void AddPlanCommand(CommandLine& line) {
  auto options = std::make_shared<PlanCommandOptions>();
  std::vector<Option> rows = ClusterOptionRows(&options->cluster);
  rows.push_back({"--json", &options->json, "One JSON object on one line"});
  line.AddCommand("plan", "Show which layers go to which worker, with bytes by purpose; starts nothing", rows,
                  [options] { return RunPlan(*options); });
}

}  // namespace spillway::cli
