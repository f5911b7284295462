// The folder of one running cluster: its processes' logs and port files, and cluster.json, by which
// `spillway ps` finds it. Private to the user.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spillway::cli {

class RunDirectory {
 public:
  // $XDG_RUNTIME_DIR/spillway-PID, else /tmp/spillway-UID-PID; a fresh folder with mode 0700.
  static absl::StatusOr<RunDirectory> Create();

  const std::string& path() const { return path_; }
  std::string LogFile(const std::string& process) const { return path_ + "/" + process + ".log"; }
  std::string PortFile(const std::string& process) const { return path_ + "/" + process + ".ports.json"; }
  absl::Status WriteClusterFile(const nlohmann::ordered_json& cluster) const;  // whole or not at all
  void Remove() const;                                                         // with all that is in it
  void KeepLogs() const;  // and nothing else: no cluster is running here any more

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// cluster.json of every cluster of this user that is running.
std::vector<nlohmann::ordered_json> RunningClusters();

// What a log has to say about a failure: the last `lines` lines that are more than information, each indented
// and ended. Empty when there are none.
std::string TellingLines(const std::string& path, size_t lines);

}  // namespace spillway::cli
