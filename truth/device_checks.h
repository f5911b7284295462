// From facts about the machine's NVIDIA devices to causes of the table, check by check. Pure: the same facts
// give the same checks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "truth/verdict.h"

namespace spillway::truth {

// What this program asks of driver and device.
struct DeviceNeeds {
  uint64_t cuda_version = 12000;        // of the driver, at least; 12000 = 12.0
  uint64_t cc_major = 7, cc_minor = 5;  // oldest compute capability with code in a build
  std::optional<uint32_t> device;       // N of cuda:N; empty: all that are visible
};

struct DeviceCheck {
  std::string name;    // "driver library", "cuda:0 memory"
  std::string cause;   // name of a row of Causes(); empty: in order
  std::string detail;  // the figures, also when all is well
  bool stops = true;   // a failure for which a worker cannot start; foreign memory or no NVML is none
  bool ok() const { return cause.empty(); }
};

// Strongest first: where several fail, the first one explains the others.
std::vector<DeviceCheck> CheckDevices(const device::GpuFacts& facts, const DeviceNeeds& needs);

// The first that fails; nullptr when all is well.
const DeviceCheck* FirstProblem(const std::vector<DeviceCheck>& checks);
// The first that fails and stops a worker.
const DeviceCheck* FirstObstacle(const std::vector<DeviceCheck>& checks);

// How long a starting program waits for a device that is not ready yet.
constexpr std::chrono::milliseconds kStartPatience{30'000};

struct Examination {
  device::GpuFacts facts;
  std::vector<DeviceCheck> checks;
  uint32_t attempts = 0;
};

// Reads and checks; again with back-off (0.1 s doubling to 2 s) while the device is not ready yet and
// `patience` lasts.
Examination ExamineDevices(const std::function<device::GpuFacts()>& read, const DeviceNeeds& needs,
                           std::chrono::milliseconds patience);

// "cause=NAME (ID) DETAIL. MEANING Remedy: REMEDY", as programs print it.
std::string Describe(const DeviceCheck& check);

}  // namespace spillway::truth
