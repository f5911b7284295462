// spillway-monitor: options, parts, rounds until SIGTERM. Signals are taken by waiting for them between two
// rounds.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "monitor/monitor.h"
#include "monitor/options.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kParentCheck{500};

// True when the process should stop: a signal came, or the parent it was tied to is gone.
bool WaitUntil(Clock::time_point until, const sigset_t& signals, pid_t parent) {
  while (true) {
    if (parent != 0 && getppid() != parent) return true;
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now());
    if (left.count() <= 0) return false;
    const auto part = std::min<std::chrono::nanoseconds>(left, kParentCheck);
    const timespec timeout{part.count() / 1'000'000'000, part.count() % 1'000'000'000};
    if (sigtimedwait(&signals, nullptr, &timeout) > 0) return true;
  }
}

int Run(const spillway::monitor::Options& options, pid_t parent) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread starts
  signal(SIGPIPE, SIG_IGN);
  auto monitor = spillway::monitor::Monitor::Start(options, spillway::device::Root());
  if (!monitor.ok()) {
    std::fprintf(stderr, "spillway-monitor: %s\n", std::string(monitor.status().message()).c_str());
    return 1;
  }
  Clock::time_point next = Clock::now();
  do {
    (*monitor)->Round();
    next = std::max(next + options.interval, Clock::now());
  } while (!WaitUntil(next, signals, options.exit_with_parent ? parent : 0));
  spdlog::info("event=stopped");
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const pid_t parent = getppid();
  spillway::telemetry::SetUpLogging("monitor");
  const auto options = spillway::monitor::ParseOptions(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "spillway-monitor: %s\n", std::string(options.status().message()).c_str());
    return 2;
  }
  return options->has_value() ? Run(**options, parent) : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "spillway-monitor: %s\n", error.what());
  return 1;
}
