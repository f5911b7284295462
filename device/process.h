// What the system says of a process.
#pragma once

#include <cstdint>
#include <string>

#include "device/files.h"

namespace spillway::device {

struct ProcessFacts {
  bool known = false;  // false when the process is gone or /proc cannot be read
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t open_fds = 0;
  uint64_t major_faults = 0;
  double start_unix_seconds = 0;
};

// process: "self" or a process id.
ProcessFacts ReadProcess(const Root& root, const std::string& process = "self");

}  // namespace spillway::device
