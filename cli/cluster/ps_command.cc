// `spillway ps`: a running cluster, stage by stage: what was planned, what is there, and what is wrong.
#include <fmt/core.h>

#include <memory>

#include "cli/cluster/run_directory.h"
#include "cli/cluster/status_client.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "engine/base/status.h"

namespace spillway::cli {
namespace {

constexpr char kDefaultAdmin[] = "127.0.0.1:50060";

struct PsOptions {
  std::string admin;
  bool json = false;
};

// The one asked for, else the one cluster of this user that runs, else the documented port.
absl::StatusOr<std::string> FindAdmin(const PsOptions& options) {
  if (!options.admin.empty()) return options.admin;
  const auto clusters = RunningClusters();
  if (clusters.empty()) return std::string(kDefaultAdmin);
  if (clusters.size() == 1) return clusters[0].value("admin", kDefaultAdmin);
  std::string message = "several clusters run; choose one with --admin:";
  for (const auto& cluster : clusters) {
    message += fmt::format("\n  --admin {}  (process {}, {})", cluster.value("admin", ""),
                           cluster.value("pid", 0), cluster.value("model", ""));
  }
  return InvalidArgument("{}", message);
}

int RunPs(const PsOptions& options) {
  const auto admin = FindAdmin(options);
  if (!admin.ok()) return FailUsage(admin.status());
  const auto status = GetClusterStatus(*admin);
  if (!status.ok()) return FailWith(status.status());
  using nlohmann::json;
  fmt::print("{}", options.json
                       ? StatusJson(*status).dump(-1, ' ', false, json::error_handler_t::replace) + "\n"
                       : StatusTable(*status));
  return std::fflush(stdout) == 0 ? kOk : Fail(kFailed, "standard output cannot be written");
}

}  // namespace

void AddPsCommand(CommandLine& line) {
  auto options = std::make_shared<PsOptions>();
  line.AddCommand(
      "ps", "Show a running cluster: one row per stage",
      {{"--admin", &options->admin,
        "HOST:PORT of the gateway's Cluster service (default: the running cluster, else 127.0.0.1:50060)"},
       {"--json", &options->json, "One JSON object on one line"}},
      [options] { return RunPs(*options); });
}

}  // namespace spillway::cli
