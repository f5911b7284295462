// What the monitor holds to be true of each worker: samples in, verdicts and transitions out. Knows no clock,
// no wire calls and no page; confined to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitor/poller.h"
#include "monitor/verdict_track.h"
#include "truth/verdict.h"

namespace spillway::monitor {

struct WorkerView {
  WorkerTarget target;
  bool reachable = false;
  bool ever_reached = false;
  std::string error;
  v1::DescribeReply reply;        // the last one that came
  truth::Verdict verdict;         // confirmed
  double since_unix_seconds = 0;  // of the verdict
  double layers_executed = 0;     // per row; what is loaded until rows came
};

truth::WorkerFacts FactsOf(const WorkerSample& sample);
// Layers the plan gives to this worker; 0 while there is no plan.
uint32_t PlannedLayers(const v1::DescribeReply& reply);
uint32_t LoadedLayers(const v1::DescribeReply& reply);

class WatchState {
 public:
  // A worker that never answered may still be starting.
  static constexpr double kStartSeconds = 15;

  WatchState(const std::vector<WorkerTarget>& targets, double now_unix_seconds);
  // Returns the transitions of this round.
  std::vector<Event> Update(const std::vector<WorkerSample>& samples, double now_unix_seconds);

  const std::vector<WorkerView>& workers() const { return workers_; }

 private:
  void UpdateView(const WorkerSample& sample, WorkerView* view);
  truth::Verdict Judge(const WorkerSample& sample, const WorkerView& view, double now) const;

  const double started_;
  std::vector<WorkerView> workers_;
  std::vector<VerdictTrack> tracks_;
};

}  // namespace spillway::monitor
