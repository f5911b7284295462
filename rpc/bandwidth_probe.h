// Measures how fast this machine reads memory, so that the planner can predict tokens per second. Knows no
// engine.
#pragma once

#include <chrono>
#include <cstddef>

namespace spillway::rpc {

struct BandwidthOptions {
  int threads = 1;
  size_t bytes = size_t{64} << 20;       // read by all threads together; beyond the caches of most machines
  std::chrono::milliseconds limit{100};  // for all of it
};

// Bytes per second of the best pass over the buffer; 0 when the memory cannot be had or no pass fitted the
// limit.
double MeasureReadBandwidth(const BandwidthOptions& options);

}  // namespace spillway::rpc
