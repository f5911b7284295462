// What the two workers' programs share: flags, start in order, serving until SIGTERM, drain. They differ in
// their role and in what --device means.
#pragma once

#include <string>

namespace spillway::rpc {

struct WorkerProgram {
  std::string name;  // "spillway-cpu-worker"
  std::string role;  // "cpu" | "gpu"
  std::string default_listen;
  std::string default_metrics;
};

// Exit codes: 0 ok, 1 failed, 2 usage, 4 named cause. Blocks SIGTERM and SIGINT for all threads and waits for
// them.
int RunWorker(const WorkerProgram& program, int argc, char** argv);

}  // namespace spillway::rpc
