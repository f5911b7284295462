// A whole cluster on this machine: gateway, GPU worker, CPU workers and monitor as processes, started in
// order, restarted on the same ports when one dies, stopped together. Knows nothing of tokens or layers: the
// plan reaches the programs as flags.
#pragma once

#include <absl/status/statusor.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/cluster/child.h"
#include "cli/cluster/port_plan.h"
#include "cli/cluster/run_directory.h"
#include "cli/plan/cluster_options.h"

namespace spillway::cli {

struct ClusterSetup {
  std::string model;
  std::string model_name;  // what it is called instead of its file's name; "" = that
  ClusterPlan plan;
  std::string n_gpu_layers;
  PortPlan ports;
  bool verbose = false;  // logs to stderr instead of files
  std::string data_plane;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> allowed_origins;
};

// Blocks the signals that Cluster waits for, in this thread and every later one. Before any thread starts.
void BlockClusterSignals();

// Confined to one thread (which starts the processes and must live until Stop), except RequestStop.
class Cluster {
 public:
  static absl::StatusOr<std::unique_ptr<Cluster>> Create(ClusterSetup setup);
  ~Cluster();  // Stop()

  // Until the gateway is ready. Cancelled when a signal or RequestStop came first. On any error what was
  // started is stopped. `exit_code()` is then that of the process that failed, or 4 when a worker cannot have
  // its stage for a named cause.
  absl::Status Start();
  // Watches, restarts what dies, until a signal or RequestStop.
  void Supervise();
  // SIGTERM in order, SIGKILL after a deadline; returns when no process is left. Idempotent. Removes the
  // logs, or after a failure says where they are and shows what they tell.
  void Stop();

  void RequestStop() { stop_requested_.store(true); }  // thread-safe
  void SetFailed() { failed_.store(true); }            // thread-safe; before Stop

  // {"api","status","processes":[...]} of `up --json`.
  nlohmann::ordered_json Description() const;
  std::string api_url() const;
  std::string status_url() const;
  std::string admin() const { return gateway().Address("admin"); }
  const std::string& run_directory() const { return directory_.path(); }
  int exit_code() const { return exit_code_; }

 private:
  Cluster(ClusterSetup setup, RunDirectory directory, std::string programs);
  Child& Add(const std::string& name, const std::string& program, std::vector<Listener> listeners);
  void AddWorkers();
  void AddGateway();
  void AddMonitor();
  const Child& gateway() const;
  absl::Status Launch(size_t first);
  absl::Status WaitForPorts(size_t first);
  absl::Status WaitForReady();
  absl::Status CheckAlive();
  absl::Status CheckStages();
  bool WaitForEvent(std::chrono::milliseconds timeout);  // true when the cluster should stop
  void RestartWhatDied();
  void StopChildren(const std::vector<Child*>& children, std::chrono::milliseconds deadline);
  void WriteClusterFile() const;
  void LeaveLogs() const;

  struct Backoff {
    std::chrono::milliseconds delay{0};
    Child::Clock::time_point due;
    bool waiting = false;
  };

  const ClusterSetup setup_;
  const RunDirectory directory_;
  const std::string programs_;  // folder of the executables
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<Backoff> backoffs_;
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> failed_{false};
  bool stopped_ = false;
  int exit_code_ = 1;
};

}  // namespace spillway::cli
