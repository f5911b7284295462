// See cluster_command.h.
#include "cli/cluster/cluster_command.h"

#include <fmt/core.h>

#include <filesystem>

#include "cli/exit_code.h"
#include "cli/plan/model_source.h"
#include "cli/plan/placement.h"
#include "engine/base/status.h"

namespace spillway::cli {

std::vector<Option> StartOptionRows(StartOptions* options) {
  std::vector<Option> rows = ClusterOptionRows(&options->cluster);
  const std::vector<Option> more = {
      {"--port", &options->port, "Port of the API; 0 = any free", 0, 65535},
      {"--port-base", &options->port_base,
       "All other listeners take ports from here on; 0 = any free (default: the documented ports)", 0, 65535},
      OneOf({"--data-plane", &options->data_plane,
             "What carries activations: auto (default; a Unix socket on this host, else gRPC) or grpc"},
            {"auto", "grpc"}),
      {"--allowed-host", &options->allowed_hosts,
       "A name besides those of loopback that the API is reached by, through a proxy (repeatable)"},
      {"--allowed-origin", &options->allowed_origins,
       "A web page's origin besides those of loopback that may use the API; * = all (repeatable)"},
      {"--verbose", &options->verbose, "The processes' logs go to stderr instead of files"},
  };
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

std::optional<PreparedCluster> PrepareCluster(const StartOptions& options, int* exit_code) {
  const auto source = FindModel(options.cluster.model, OllamaStores());
  if (!source.ok()) {
    *exit_code = FailWith(source.status());
    return std::nullopt;
  }
  const auto model = LoadModelFrom(*source);
  if (!model.ok()) {
    *exit_code = FailWith(model.status());
    return std::nullopt;
  }
  auto plan = MakeClusterPlan(options.cluster, *model, SystemRoot());
  if (!plan.ok()) {
    *exit_code = FailPlan(plan.status());
    return std::nullopt;
  }
  if (!plan->note.empty()) fmt::print(stderr, "spillway: {}\n", plan->note);
  ClusterSetup setup;
  setup.model = std::filesystem::absolute(source->path).string();
  setup.model_name = source->name;
  setup.n_gpu_layers = options.cluster.n_gpu_layers;
  setup.verbose = options.verbose;
  setup.data_plane = options.data_plane;
  setup.allowed_hosts = options.allowed_hosts;
  setup.allowed_origins = options.allowed_origins;
  setup.plan = std::move(*plan);
  const absl::Status ports =
      MakePortPlan(options.port, options.port_base, options.cluster.cpu_stages, &setup.ports);
  if (!ports.ok()) {
    *exit_code = FailUsage(ports);
    return std::nullopt;
  }
  PreparedCluster prepared;
  prepared.placement = PlacementTable(*model, setup.plan);
  prepared.n_ctx = setup.plan.plan.n_ctx;
  BlockClusterSignals();
  auto cluster = Cluster::Create(std::move(setup));
  if (!cluster.ok()) {
    *exit_code = FailWith(cluster.status());
    return std::nullopt;
  }
  prepared.cluster = std::move(*cluster);
  return prepared;
}

}  // namespace spillway::cli
