// The monitor put together: polls, judges, logs transitions, exports metrics, serves the status page.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>

#include "device/files.h"
#include "monitor/options.h"
#include "monitor/page/board.h"
#include "monitor/poller.h"
#include "monitor/verdict_track.h"
#include "monitor/watch/engine_watch.h"
#include "monitor/watch_state.h"
#include "telemetry/monitor_metrics.h"
#include "telemetry/registry.h"

namespace spillway::monitor {

// Rounds are confined to one thread; pages are served on the listener's.
class Monitor {
 public:
  // Opens the listener and writes the port file. Unavailable when the address is in use.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(const Options& options, const device::Root& root);
  ~Monitor();

  // Nothing in it waits for a watched engine.
  void Round();
  uint16_t port() const { return health_->port(); }

 private:
  Monitor(const Options& options, const device::Root& root);
  void JudgeEngines(double now);

  const Options options_;
  const device::Root root_;
  telemetry::Registry registry_;
  telemetry::MonitorMetrics metrics_;
  Poller poller_;
  WatchState state_;
  EngineWatch engines_;
  std::vector<VerdictTrack> engine_tracks_;
  std::vector<EngineView> engine_views_;
  EventLog events_;            // of workers and engines
  v1::ClusterStatus cluster_;  // the last one that came
  BoardHolder board_;
  std::atomic<bool> asked_{false};                   // a first round is done
  std::unique_ptr<telemetry::HealthServer> health_;  // last: its thread reads the members above
};

}  // namespace spillway::monitor
