// `spillway up`: a whole cluster on this machine, supervised until it is told to stop.
#include <fmt/core.h>

#include <memory>

#include "cli/cluster/cluster_command.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "engine/base/status.h"

namespace spillway::cli {
namespace {

struct UpOptions {
  StartOptions start;
  bool json = false;
};

void PrintReady(const PreparedCluster& prepared, bool json) {
  const Cluster& cluster = *prepared.cluster;
  if (json) {
    fmt::print("{}\n", cluster.Description().dump());
  } else {
    fmt::print("{}\nAPI      {}/v1\nstatus   {}\nlogs     {}\nCtrl-C stops everything.\n", prepared.placement,
               cluster.api_url(), cluster.status_url(), cluster.run_directory());
  }
  std::fflush(stdout);
}

int RunUp(const UpOptions& options) {
  int exit_code = kFailed;
  const auto prepared = PrepareCluster(options.start, &exit_code);
  if (!prepared.has_value()) return exit_code;
  Cluster& cluster = *prepared->cluster;
  fmt::print(stderr, "spillway: starting; logs in {}\n", cluster.run_directory());
  const absl::Status started = cluster.Start();
  if (absl::IsCancelled(started)) return kOk;
  if (!started.ok()) {
    Fail(kFailed, MessageOf(started));
    return cluster.exit_code();
  }
  PrintReady(*prepared, options.json);
  cluster.Supervise();
  fmt::print(stderr, "spillway: stopping\n");
  cluster.Stop();
  return kOk;
}

}  // namespace

void AddUpCommand(CommandLine& line) {
  auto options = std::make_shared<UpOptions>();
  std::vector<Option> rows = StartOptionRows(&options->start);
  rows.push_back(
      {"--json", &options->json, "Once ready, one JSON object on one line: api, status, processes"});
  line.AddCommand("up",
                  "Start gateway, GPU worker, CPU workers and monitor as processes, and keep them running",
                  rows, [options] { return RunUp(*options); });
}

}  // namespace spillway::cli
