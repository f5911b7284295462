// The monitor's options: one list that parses and prints the help.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "monitor/watch/engine_watch.h"

namespace spillway::monitor {

struct WorkerTarget {
  std::string name;     // as configured; a label value
  std::string address;  // host:port of its Worker service
};

struct Options {
  std::vector<WorkerTarget> workers;
  std::vector<EngineTarget> engines;  // not ours
  double expected_share = 1;          // of an engine's model in VRAM
  std::string gateway_admin;          // host:port of the Cluster service; empty = none
  std::string metrics = "127.0.0.1:9563";
  std::string port_file;  // written once the listener is up; empty = none
  std::chrono::milliseconds interval{1000};
  bool exit_with_parent = false;
};

// nullopt: help was asked for and printed. InvalidArgument for bad usage.
absl::StatusOr<std::optional<Options>> ParseOptions(int argc, char** argv);

}  // namespace spillway::monitor
