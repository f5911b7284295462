// Asks every worker and the gateway what they are, all at once, so that a dead one delays nobody. No
// verdicts.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "monitor/options.h"
#include "spillway/v1/cluster.pb.h"
#include "spillway/v1/worker.pb.h"

namespace spillway::monitor {

struct WorkerSample {
  bool reachable = false;
  bool gone = false;  // its address refuses or dropped the connection, rather than being late
  std::string error;  // of the call, when not reachable
  v1::DescribeReply reply;
};

struct Sample {
  std::vector<WorkerSample> workers;  // in the order of the targets
  bool gateway_up = false;
  std::string gateway_error;
  v1::ClusterStatus cluster;
};

// Confined to one thread.
class Poller {
 public:
  // gateway_admin empty: no gateway is asked.
  Poller(const std::vector<WorkerTarget>& workers, const std::string& gateway_admin);
  ~Poller();
  // Returns when all have answered or at the deadline, whichever is first.
  Sample Poll(std::chrono::milliseconds deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::monitor
