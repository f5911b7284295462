// See run_directory.h.
#include "cli/cluster/run_directory.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

namespace fs = std::filesystem;
constexpr int kAttempts = 100;

// Folder and beginning of the name of every run directory of this user.
std::pair<std::string, std::string> Place() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && access(runtime, W_OK | X_OK) == 0) return {runtime, "spillway-"};
  return {"/tmp", fmt::format("spillway-{}-", getuid())};
}

bool OwnedByMe(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == getuid();
}

}  // namespace

absl::StatusOr<RunDirectory> RunDirectory::Create() {
  const auto [folder, stem] = Place();
  const std::string base = fmt::format("{}/{}{}", folder, stem, getpid());
  for (int i = 0; i < kAttempts; ++i) {
    // Names of ended processes come back, and /tmp belongs to everybody: only a folder that mkdir made is
    // ours.
    const std::string path = i == 0 ? base : fmt::format("{}.{}", base, i);
    if (mkdir(path.c_str(), 0700) == 0) return RunDirectory(path);
    if (errno != EEXIST) return Unavailable("run directory {}: {}", path, std::strerror(errno));
  }
  return Unavailable("run directory {}: {} such folders exist; remove old ones", base, kAttempts);
}

absl::Status RunDirectory::WriteClusterFile(const nlohmann::ordered_json& cluster) const {
  const std::string path = path_ + "/cluster.json";
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << cluster.dump() << "\n";
    file.close();
    if (!file) return Unavailable("{} cannot be written", temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return Unavailable("{} cannot be written", path);
  return absl::OkStatus();
}

void RunDirectory::Remove() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void RunDirectory::KeepLogs() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    if (entry.path().extension() != ".log") fs::remove(entry.path(), ignored);
  }
}

std::vector<nlohmann::ordered_json> RunningClusters() {
  std::vector<nlohmann::ordered_json> clusters;
  const auto [folder, stem] = Place();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().rfind(stem, 0) != 0 || !OwnedByMe(path)) continue;
    std::ifstream file(path + "/cluster.json");
    auto cluster = nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!cluster.is_object() || !cluster.contains("pid") || !cluster["pid"].is_number_integer()) continue;
    if (kill(cluster["pid"].get<pid_t>(), 0) == 0) clusters.push_back(std::move(cluster));
  }
  return clusters;
}

std::string TellingLines(const std::string& path, size_t lines) {
  std::deque<std::string> telling;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.find(" level=info ") != std::string::npos || line.find(" level=debug ") != std::string::npos)
      continue;
    telling.push_back(line);
    if (telling.size() > lines) telling.pop_front();
  }
  std::string text;
  for (const std::string& line : telling) text += "    " + line + "\n";
  return text;
}

}  // namespace spillway::cli
