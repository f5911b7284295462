// The host as a device: processor, cores and memory this process may use (machine and cgroup limits). No
// verdicts.
#pragma once

#include <cstdint>
#include <string>

#include "device/files.h"

namespace spillway::device {

struct HostFacts {
  std::string cpu_name;                  // "model name" of /proc/cpuinfo, empty when not stated
  uint32_t cpus_allowed = 0;             // by the affinity of this process; 0 = unknown
  double cpu_quota = 0;                  // cores' worth of time the cgroup grants; 0 = no limit
  uint64_t machine_total_bytes = 0;      // MemTotal
  uint64_t machine_available_bytes = 0;  // MemAvailable
  uint64_t cgroup_limit_bytes = 0;       // smallest of the cgroup and its parents; 0 = no limit
  uint64_t cgroup_available_bytes = 0;   // limit less what cannot be reclaimed; meaningful with a limit

  uint64_t TotalBytes() const;      // what this process can hope for
  uint64_t AvailableBytes() const;  // what it could allocate now
};

HostFacts ReadHost(const Root& root);

}  // namespace spillway::device
