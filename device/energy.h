// Energy of the processor packages from the kernel's power capping counters (RAPL). Where they are missing or
// not readable, which is usual in virtual machines and for other users than root, there is no figure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/files.h"

namespace spillway::device {

// Counts from its construction on. The counters wrap after minutes to hours of load: ask more often than
// that.
class EnergyMeter {
 public:
  explicit EnergyMeter(const Root& root);
  // Of all packages since the construction; nullopt when any of them cannot be read.
  std::optional<double> Joules();

 private:
  struct Package {
    std::string folder;
    uint64_t range = 0;  // microjoules until the counter wraps
    uint64_t last = 0;
  };
  const Root root_;
  std::vector<Package> packages_;
  double joules_ = 0;
};

}  // namespace spillway::device
