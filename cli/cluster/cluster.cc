// Start and watch; stopping is in cluster_stop.cc, the flags of each program in cluster_programs.cc.
#include "cli/cluster/cluster.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/cluster/status_client.h"
#include "cli/exit_code.h"
#include "engine/base/status.h"
#include "telemetry/http_client.h"

namespace spillway::cli {
namespace {

using std::chrono::milliseconds;
using Clock = Child::Clock;

constexpr milliseconds kPoll{50};
constexpr milliseconds kFirstBackoff{200};
constexpr milliseconds kLongestBackoff{10'000};
constexpr milliseconds kSteady{
    30'000};  // a process that lived this long starts over with the shortest back-off
constexpr milliseconds kListenLimit{120'000};   // a worker measures bandwidth before it listens
constexpr milliseconds kReadyLimit{3'600'000};  // loading a large model from a slow disk takes its time
constexpr milliseconds kReadyRequest{1'000};

sigset_t ClusterSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, signal);
  // Under nohup a hang-up is to be ignored; waiting for it would take it all the same.
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void BlockClusterSignals() {
  const sigset_t set = ClusterSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Create(ClusterSetup setup) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Unavailable("/proc/self/exe: {}", error.message());
  SPILLWAY_RETURN_IF_ERROR(CheckPortsFree(setup.ports));
  SPILLWAY_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::Create());
  return std::unique_ptr<Cluster>(
      new Cluster(std::move(setup), std::move(directory), self.parent_path().string()));
}

Cluster::Cluster(ClusterSetup setup, RunDirectory directory, std::string programs)
    : setup_(std::move(setup)), directory_(std::move(directory)), programs_(std::move(programs)) {}

Cluster::~Cluster() { Stop(); }

absl::Status Cluster::Start() {
  const auto start = [this]() -> absl::Status {
    AddWorkers();
    SPILLWAY_RETURN_IF_ERROR(Launch(0));
    const size_t workers = children_.size();
    AddGateway();
    SPILLWAY_RETURN_IF_ERROR(Launch(workers));
    AddMonitor();
    SPILLWAY_RETURN_IF_ERROR(Launch(workers + 1));
    return WaitForReady();
  };
  const absl::Status status = start();
  if (status.ok()) {
    WriteClusterFile();
    return status;
  }
  if (!absl::IsCancelled(status)) SetFailed();
  Stop();
  return status;
}

// Starts the children from `first` on and waits until they listen.
absl::Status Cluster::Launch(size_t first) {
  backoffs_.resize(children_.size());
  for (size_t i = first; i < children_.size(); ++i) SPILLWAY_RETURN_IF_ERROR(children_[i]->Start());
  return WaitForPorts(first);
}

absl::Status Cluster::WaitForPorts(size_t first) {
  const Clock::time_point deadline = Clock::now() + kListenLimit;
  for (size_t i = first; i < children_.size(); ++i) {
    while (!children_[i]->ReadPorts()) {
      SPILLWAY_RETURN_IF_ERROR(CheckAlive());
      if (WaitForEvent(kPoll)) return absl::CancelledError("stopped while starting");
      if (Clock::now() > deadline) {
        return Unavailable("{} does not listen after {} s", children_[i]->name(),
                           kListenLimit.count() / 1000);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Cluster::WaitForReady() {
  const Clock::time_point deadline = Clock::now() + kReadyLimit;
  std::string why;
  while (Clock::now() < deadline) {
    const auto answer = telemetry::HttpGet(gateway().Address("metrics"), "/readyz", kReadyRequest);
    if (answer.ok() && answer->status == 200) return absl::OkStatus();
    if (answer.ok()) why = answer->body;
    SPILLWAY_RETURN_IF_ERROR(CheckAlive());
    if (answer.ok()) SPILLWAY_RETURN_IF_ERROR(CheckStages());
    if (WaitForEvent(kPoll)) return absl::CancelledError("stopped while starting");
  }
  return Unavailable("the gateway is not ready after {} s: {}", kReadyLimit.count() / 1000, why);
}

// An error when a worker has answered that it cannot have its stage. It would be asked again and again, which
// helps a cluster that has run; one that never has ends with the reason.
absl::Status Cluster::CheckStages() {
  const auto status = GetClusterStatus(admin());
  if (!status.ok()) return absl::OkStatus();  // not yet
  for (const v1::StageStatus& stage : status->stages()) {
    if (stage.state() != "degraded" && stage.state() != "incompatible") continue;
    exit_code_ = stage.cause().empty() ? kFailed : kNamedCause;
    std::string message = fmt::format("{} cannot load its stage: {}", stage.worker(), stage.detail());
    if (!stage.cause().empty())
      message += fmt::format(". cause={}. Remedy: {}", stage.cause(), stage.remedy());
    return Unavailable("{}", message);
  }
  return absl::OkStatus();
}

// An error when a process has ended.
absl::Status Cluster::CheckAlive() {
  for (const auto& child : children_) {
    std::string how;
    if (!child->Reap(&how)) continue;
    exit_code_ = child->exit_code() > 0 ? child->exit_code() : 1;
    return Unavailable("{} {} while starting", child->name(), how);
  }
  return absl::OkStatus();
}

bool Cluster::WaitForEvent(milliseconds timeout) {
  if (stop_requested_.load()) return true;
  const sigset_t set = ClusterSignals();
  const timespec limit = {timeout.count() / 1000, timeout.count() % 1000 * 1'000'000};
  const int signal = sigtimedwait(&set, nullptr, &limit);
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || stop_requested_.load();
}

void Cluster::Supervise() {
  while (!WaitForEvent(kPoll)) RestartWhatDied();
}

void Cluster::RestartWhatDied() {
  const Clock::time_point now = Clock::now();
  bool changed = false;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = *children_[i];
    Backoff& backoff = backoffs_[i];
    std::string how;
    if (child.Reap(&how)) {
      const bool steady = now - child.started() > kSteady;
      backoff.delay =
          steady || backoff.delay.count() == 0 ? kFirstBackoff : std::min(backoff.delay * 2, kLongestBackoff);
      backoff.due = now + backoff.delay;
      backoff.waiting = true;
      fmt::print(stderr, "spillway: {} {}; restarting it on the same ports in {} ms\n", child.name(), how,
                 backoff.delay.count());
    }
    if (!backoff.waiting || now < backoff.due) continue;
    backoff.waiting = false;
    const absl::Status status = child.Start();
    if (status.ok()) {
      fmt::print(stderr, "spillway: {} runs again as process {}\n", child.name(), child.pid());
      changed = true;
    } else {
      backoff.delay = std::min(backoff.delay * 2, kLongestBackoff);
      backoff.due = now + backoff.delay;
      backoff.waiting = true;
      fmt::print(stderr, "spillway: {}\n", MessageOf(status));
    }
  }
  if (changed) WriteClusterFile();
}

const Child& Cluster::gateway() const {
  const auto found = std::find_if(children_.begin(), children_.end(),
                                  [](const auto& child) { return child->name() == "gateway"; });
  return **found;
}

}  // namespace spillway::cli
