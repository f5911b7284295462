// The flags of a worker, parsed and checked.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/worker_main.h"

namespace spillway::rpc {

struct WorkerFlags {
  std::string model;
  std::string listen;
  std::string metrics;
  std::string device;                    // as given; "host" for the CPU worker
  std::optional<uint64_t> budget_bytes;  // --ram-budget or --vram-budget
  uint32_t threads = 0;                  // 0 = the processors this process may use
  std::string port_file;
  std::vector<std::string> insecure;  // names of listeners
  bool exit_with_parent = false;
};

struct ParsedFlags {
  WorkerFlags flags;
  std::optional<int> exit_code;  // set: the program ends with it (help, version, usage error, named cause)
};

// Prints help, version, usage errors and named causes itself.
ParsedFlags ParseWorkerFlags(const WorkerProgram& program, int argc, char** argv);

}  // namespace spillway::rpc
