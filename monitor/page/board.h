// What the status page shows: one value made per round, handed to the page's thread. Rendering knows no
// network.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/host.h"
#include "device/nvidia.h"
#include "monitor/verdict_track.h"
#include "monitor/watch_state.h"
#include "spillway/v1/cluster.pb.h"
#include "truth/engine.h"

namespace spillway::monitor {

// An engine that is not ours.
struct EngineView {
  std::string name;  // empty before the first answer
  truth::EngineFacts facts;
  truth::Verdict verdict;  // confirmed
  double since_unix_seconds = 0;
};

struct Board {
  double unix_seconds = 0;
  bool gateway_configured = false;
  bool gateway_up = false;
  std::string gateway_error;
  v1::ClusterStatus cluster;  // the last one that came
  std::vector<WorkerView> workers;
  std::vector<EngineView> engines;
  std::deque<Event> events;  // newest first
  device::HostFacts host;
  device::NvidiaFacts nvidia;
};

// Thread-safe. Readers share the value they got with whoever else holds it.
class BoardHolder {
 public:
  void Set(Board board) {
    auto next = std::make_shared<const Board>(std::move(board));
    const std::lock_guard lock(mutex_);
    board_ = std::move(next);
  }
  std::shared_ptr<const Board> Get() const {
    const std::lock_guard lock(mutex_);
    return board_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Board> board_ = std::make_shared<const Board>();
};

// One complete document without any external asset; refreshes itself.
std::string RenderHtml(const Board& board);
// The same facts as one JSON object.
std::string RenderJson(const Board& board);

// Words for the state of a worker: a fallback's extent, "unreachable", or what it says of itself.
std::string StateOf(const WorkerView& worker);
std::string EngineStateOf(const EngineView& engine);
std::string TimeText(double unix_seconds);  // "2024-01-31 12:00:00Z"

}  // namespace spillway::monitor
