// What NVML says of driver and devices, asked in a child process with a deadline. Facts only; what the
// library does not offer is empty, what cannot be true is dropped and named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda_probe.h"

namespace spillway::device {

struct GpuProcess {
  std::optional<uint64_t> pid, bytes;
  std::string name;  // of /proc/PID/comm; empty where that process cannot be seen
};

struct NvmlDevice {
  std::string name, uuid, pci_address;
  std::optional<uint64_t> minor_number;  // N of /dev/nvidiaN
  std::optional<uint64_t> cc_major, cc_minor;
  std::optional<uint64_t> memory_total_bytes, memory_used_bytes;
  std::optional<uint64_t> memory_reserved_bytes;                        // empty: used holds it
  std::optional<uint64_t> utilization, memory_activity;                 // percent
  std::optional<uint64_t> temperature;                                  // degrees Celsius
  std::optional<double> power_watts, power_limit_watts, energy_joules;  // energy since the driver was loaded
  std::optional<uint64_t> clock_sm, clock_sm_max, clock_memory, clock_memory_max;  // MHz
  std::optional<uint64_t> throttle_reasons;                                        // NVML's bits
  std::optional<uint64_t> pcie_generation, pcie_generation_max, pcie_width, pcie_width_max;
  std::optional<uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<uint64_t> mig_enabled;
  std::optional<uint64_t> xid;  // of an event that came while the probe listened
  std::string implausible;      // names of figures that cannot be true
  FailedCall failed;
  std::vector<GpuProcess> processes;
};

struct NvmlFacts {
  ChildRun run;
  std::string library, library_error;
  std::string driver_version, nvml_version;
  std::optional<uint64_t> cuda_version;
  std::optional<uint64_t> device_count;
  FailedCall failed;
  std::vector<NvmlDevice> devices;  // all of the machine's
  bool usable() const { return run.end == ChildEnd::kDone && !failed.code && library_error.empty(); }
};

NvmlFacts ProbeNvml(const ProbeOptions& options);

template <FactsOf<GpuProcess> Facts, typename Visit>
void VisitFields(Facts& facts, Visit&& visit) {
  visit("pid", facts.pid);
  visit("bytes", facts.bytes);
  visit("name", facts.name);
}

template <FactsOf<NvmlDevice> Facts, typename Visit>
void VisitFields(Facts& facts, Visit&& visit) {
  visit("name", facts.name);
  visit("uuid", facts.uuid);
  visit("pci_address", facts.pci_address);
  visit("minor_number", facts.minor_number);
  visit("compute_capability_major", facts.cc_major);
  visit("compute_capability_minor", facts.cc_minor);
  visit("memory_total_bytes", facts.memory_total_bytes);
  visit("memory_used_bytes", facts.memory_used_bytes);
  visit("memory_reserved_bytes", facts.memory_reserved_bytes);
  visit("utilization_percent", facts.utilization);
  visit("memory_activity_percent", facts.memory_activity);
  visit("temperature_celsius", facts.temperature);
  visit("power_watts", facts.power_watts);
  visit("power_limit_watts", facts.power_limit_watts);
  visit("energy_joules", facts.energy_joules);
  visit("clock_sm_mhz", facts.clock_sm);
  visit("clock_sm_max_mhz", facts.clock_sm_max);
  visit("clock_memory_mhz", facts.clock_memory);
  visit("clock_memory_max_mhz", facts.clock_memory_max);
  visit("throttle_reasons", facts.throttle_reasons);
  visit("pcie_generation", facts.pcie_generation);
  visit("pcie_generation_max", facts.pcie_generation_max);
  visit("pcie_width", facts.pcie_width);
  visit("pcie_width_max", facts.pcie_width_max);
  visit("ecc_uncorrected", facts.ecc_uncorrected);
  visit("mig_enabled", facts.mig_enabled);
  visit("xid", facts.xid);
  visit("implausible", facts.implausible);
}

template <FactsOf<NvmlFacts> Facts, typename Visit>
void VisitFields(Facts& facts, Visit&& visit) {
  visit("library", facts.library);
  visit("library_error", facts.library_error);
  visit("driver_version", facts.driver_version);
  visit("nvml_version", facts.nvml_version);
  visit("cuda_version", facts.cuda_version);
  visit("device_count", facts.device_count);
}

}  // namespace spillway::device
