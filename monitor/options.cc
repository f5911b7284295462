// Parsing and checking; nothing is opened here.
#include "monitor/options.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <set>

#include "engine/base/status.h"
#include "rpc/server.h"

namespace spillway::monitor {
namespace {

constexpr std::chrono::milliseconds kShortestInterval{100};
constexpr std::chrono::milliseconds kLongestInterval{60000};

absl::StatusOr<WorkerTarget> ParseWorker(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || text.find(':', equals) == std::string::npos) {
    return InvalidArgument("--worker \"{}\" is not NAME=HOST:PORT", text);
  }
  return WorkerTarget{text.substr(0, equals), text.substr(equals + 1)};
}

// "500ms", "2s", or a number of seconds.
absl::StatusOr<std::chrono::milliseconds> ParseInterval(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const bool known = end != text.c_str() && (unit.empty() || unit == "s" || unit == "ms");
  const double milliseconds = unit == "ms" ? value : value * 1000;
  if (!known || !(milliseconds >= static_cast<double>(kShortestInterval.count())) ||
      !(milliseconds <= static_cast<double>(kLongestInterval.count()))) {
    return InvalidArgument("--interval \"{}\" is not a time between 100ms and 60s", text);
  }
  return std::chrono::milliseconds(static_cast<int64_t>(milliseconds));
}

}  // namespace

absl::StatusOr<std::optional<Options>> ParseOptions(int argc, char** argv) {
  Options options;
  std::vector<std::string> workers, engines, insecure;
  std::string interval = "1s";
  CLI::App app("Compares what was planned for every worker with what it really runs, and says so.");
  app.name("spillway-monitor");
  app.add_option("--worker", workers, "NAME=HOST:PORT of a worker to watch; repeatable");
  app.add_option("--watch", engines,
                 "ollama=URL or llama-server=URL: another engine to judge by the same rules; repeatable");
  app.add_option(
         "--expect", options.expected_share,
         "share of a watched engine's model that should be in VRAM; 0 = the CPU is what was asked for")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--gateway-admin", options.gateway_admin, "HOST:PORT of the gateway's Cluster service");
  app.add_option("--metrics", options.metrics, "HOST:PORT of /metrics, /healthz, /readyz and the status page")
      ->capture_default_str();
  app.add_option("--port-file", options.port_file,
                 "file to write {\"metrics\":\"HOST:PORT\"} to when listening");
  app.add_option("--interval", interval, "time between two rounds")->capture_default_str();
  app.add_option("--insecure", insecure,
                 "name of a listener that may bind beyond loopback without TLS: metrics");
  app.add_flag("--exit-with-parent", options.exit_with_parent,
               "stop when the process that started this one ends");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return InvalidArgument("{} (see --help)", error.what());
  }
  std::set<std::string> names;
  for (const std::string& text : workers) {
    SPILLWAY_ASSIGN_OR_RETURN(WorkerTarget target, ParseWorker(text));
    if (!names.insert(target.name).second)
      return InvalidArgument("--worker: the name \"{}\" stands twice", target.name);
    options.workers.push_back(std::move(target));
  }
  for (const std::string& text : engines) {
    SPILLWAY_ASSIGN_OR_RETURN(EngineTarget target, ParseEngine(text));
    if (!names.insert(target.name).second) return InvalidArgument("--watch: {} stands twice", text);
    options.engines.push_back(std::move(target));
  }
  SPILLWAY_ASSIGN_OR_RETURN(options.interval, ParseInterval(interval));
  for (const std::string& name : insecure) {
    if (name != "metrics")
      return InvalidArgument("--insecure={}: this process has only the listener metrics", name);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const rpc::HostPort metrics, rpc::ParseHostPort(options.metrics));
  if (!rpc::IsLoopback(metrics.host) && insecure.empty()) {
    return InvalidArgument(
        "--metrics {} is not a loopback address; without TLS that needs --insecure=metrics", options.metrics);
  }
  return options;
}

}  // namespace spillway::monitor
