// What `up` and `run` have in common: options of a cluster that is started, and its way from the command line
// to processes.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/cluster.h"
#include "cli/plan/cluster_options.h"

namespace spillway::cli {

struct StartOptions {
  ClusterOptions cluster;
  uint16_t port = 8080;
  std::optional<uint16_t> port_base;
  bool verbose = false;
  std::string data_plane;
  std::vector<std::string> allowed_hosts;  // by the API, as the gateway's options of this name
  std::vector<std::string> allowed_origins;
};

std::vector<Option> StartOptionRows(StartOptions* options);

// A cluster that is planned and may be started, and the table of its placement.
struct PreparedCluster {
  std::unique_ptr<Cluster> cluster;
  std::string placement;
  uint32_t n_ctx = 0;
};

// Loads the model's header, plans, checks the ports; prints its error and sets `exit_code` when it returns
// nothing. Blocks the signals that the cluster waits for.
std::optional<PreparedCluster> PrepareCluster(const StartOptions& options, int* exit_code);

}  // namespace spillway::cli
