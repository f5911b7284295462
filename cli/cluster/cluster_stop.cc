// Stopping: the gateway first, so that running requests still have their workers; then everything else.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "cli/cluster/cluster.h"

namespace spillway::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGatewayDrain{15'000};  // its own drain limit is 10 s
constexpr milliseconds kWorkerDrain{8'000};    // theirs is 5 s
constexpr milliseconds kPoll{20};
constexpr size_t kLogLines = 4;

}  // namespace

void Cluster::StopChildren(const std::vector<Child*>& children, milliseconds deadline) {
  const auto any_running = [&children] {
    return std::any_of(children.begin(), children.end(), [](const Child* child) { return child->running(); });
  };
  for (const Child* child : children) child->Signal(SIGTERM);
  const auto until = Child::Clock::now() + deadline;
  bool killed = false;
  // A second signal is impatience: no more draining.
  stop_requested_.store(false);
  while (any_running()) {
    for (Child* child : children) {
      std::string how;
      child->Reap(&how);
    }
    if (!any_running()) break;
    if ((WaitForEvent(kPoll) || Child::Clock::now() > until) && !killed) {
      killed = true;
      for (const Child* child : children) child->Signal(SIGKILL);
    }
  }
}

void Cluster::Stop() {
  if (stopped_) return;
  stopped_ = true;
  std::vector<Child*> first, second;
  for (const auto& child : children_) (child->name() == "gateway" ? first : second).push_back(child.get());
  StopChildren(first, kGatewayDrain);
  StopChildren(second, kWorkerDrain);
  if (failed_.load() && !setup_.verbose) {
    LeaveLogs();
  } else {
    directory_.Remove();
  }
}

void Cluster::LeaveLogs() const {
  directory_.KeepLogs();
  fmt::print(stderr, "spillway: the processes' logs are kept in {}\n", directory_.path());
  for (const auto& child : children_) {
    const std::string lines = TellingLines(child->spec().log_file, kLogLines);
    if (!lines.empty()) fmt::print(stderr, "  {}:\n{}", child->name(), lines);
  }
}

}  // namespace spillway::cli
