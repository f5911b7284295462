// What the monitor holds to be true of each worker: samples in, verdicts and transitions out. Knows no clock,
// no wire calls and no page; confined to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "monitor/poller.h"
#include "truth/verdict.h"

namespace spillway::monitor {

struct Event {
  double unix_seconds = 0;
  std::string worker;
  std::string from, to;  // causes; empty = as planned
  std::string extent;
  std::string detail;
  std::string remedy;
};

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
  static constexpr size_t kMaxEvents = 200;
  // A new fallback must be seen twice: one late answer on a busy machine is no alarm. A worker whose address
  // refuses is no guess and counts at once (it may be restarted before a second look), and so does the end of
  // a fallback.
  static constexpr int kConfirmRounds = 2;
  // A worker that never answered may still be starting.
  static constexpr double kStartSeconds = 15;

  WatchState(const std::vector<WorkerTarget>& targets, double now_unix_seconds);
  // Returns the transitions of this round, which are also in events().
  std::vector<Event> Update(const std::vector<WorkerSample>& samples, double now_unix_seconds);

  const std::vector<WorkerView>& workers() const { return workers_; }
  const std::deque<Event>& events() const { return events_; }  // newest first

 private:
  struct Pending {
    std::string cause;
    truth::Extent extent = truth::Extent::kNone;
    int rounds = 0;
  };
  void UpdateView(const WorkerSample& sample, WorkerView* view);
  truth::Verdict Judge(const WorkerSample& sample, const WorkerView& view, double now) const;

  const double started_;
  std::vector<WorkerView> workers_;
  std::vector<Pending> pending_;
  std::deque<Event> events_;
};

}  // namespace spillway::monitor
