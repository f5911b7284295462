// What the CUDA driver's library says, asked in a child process with a deadline. Facts only; a missing
// library is one of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "device/child.h"

namespace spillway::device {

constexpr uint64_t kMostDevices = 64;  // what a library says beyond is not believed

struct ProbeOptions {
  std::string library_folder;  // absolute; empty: the loader's ordinary search
  std::chrono::milliseconds deadline{10'000};
};

// The call that failed first; code is empty when none did.
struct FailedCall {
  std::string call;
  std::optional<int64_t> code;
  std::string name;  // the library's own: "CUDA_ERROR_NO_DEVICE"
};

struct CudaDevice {
  std::string name, uuid, pci_address;
  std::optional<uint64_t> cc_major, cc_minor;
  std::optional<uint64_t> memory_bytes, free_bytes;  // free as seen within a context
  FailedCall failed;
};

struct CudaFacts {
  ChildRun run;
  std::string library, library_error;
  std::optional<uint64_t> driver_version;  // 13000 = 13.0
  std::optional<uint64_t> device_count;
  FailedCall failed;
  std::vector<CudaDevice> devices;  // those that CUDA_VISIBLE_DEVICES leaves
  bool usable() const { return run.end == ChildEnd::kDone && !failed.code && !devices.empty(); }
};

// Opens a context on each device, one after the other: what is broken often shows only then.
CudaFacts ProbeCuda(const ProbeOptions& options);

template <typename T, typename Facts>
concept FactsOf = std::is_same_v<std::remove_const_t<T>, Facts>;

template <FactsOf<FailedCall> Facts, typename Visit>
void VisitFields(Facts& facts, Visit&& visit) {
  visit("call", facts.call);
  visit("code", facts.code);
  visit("name", facts.name);
}

template <FactsOf<CudaDevice> Facts, typename Visit>
void VisitFields(Facts& facts, Visit&& visit) {
  visit("name", facts.name);
  visit("uuid", facts.uuid);
  visit("pci_address", facts.pci_address);
  visit("compute_capability_major", facts.cc_major);
  visit("compute_capability_minor", facts.cc_minor);
  visit("memory_bytes", facts.memory_bytes);
  visit("free_bytes", facts.free_bytes);
}

template <FactsOf<CudaFacts> Facts, typename Visit>
void VisitFields(Facts& facts, Visit&& visit) {
  visit("library", facts.library);
  visit("library_error", facts.library_error);
  visit("driver_version", facts.driver_version);
  visit("device_count", facts.device_count);
}

}  // namespace spillway::device
