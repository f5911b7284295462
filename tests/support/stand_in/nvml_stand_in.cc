// A libnvidia-ml.so.1 without a device: the functions of device/nvml_api.h, answered from a scenario.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "device/nvml_api.h"
#include "tests/support/stand_in/scenario.h"

namespace nvml = spillway::device::nvml;
using nvml::Device;
using nvml::Result;
using spillway::stand_in::Enter;
using spillway::stand_in::Scenario;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

uintptr_t IndexOf(Device device) { return reinterpret_cast<uintptr_t>(device) - 1; }
std::string Key(Device device, const char* name) {
  return "device." + std::to_string(IndexOf(device)) + "." + name;
}

// Every answer passes through one of these two; garbage fills all that the caller gave.
Result Fill(const char* call, char* text, unsigned length, const std::string& value) {
  if (const Result code = Enter(call)) return code;
  if (Scenario().Text("garbage", "") == "yes") {
    std::memset(text, 0xff, length);
  } else {
    std::snprintf(text, length, "%s", value.c_str());
  }
  return 0;
}

template <typename Number>
Result Fill(const char* call, Number* value, const std::string& key, uint64_t otherwise) {
  if (const Result code = Enter(call)) return code;
  const Scenario scenario;
  *value = static_cast<Number>(scenario.Text("garbage", "") == "yes" ? ~uint64_t{0}
                                                                     : scenario.Number(key, otherwise));
  return 0;
}

}  // namespace

extern "C" {

const char* nvmlErrorString(Result error) {
  switch (error) {
    case 4:
      return "Insufficient Permissions";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 17:
      return "Blocked by the operating system";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

Result nvmlInit_v2() { return Enter("nvmlInit_v2"); }
Result nvmlShutdown() { return Enter("nvmlShutdown"); }
Result nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return Fill("nvmlSystemGetDriverVersion", text, length, Scenario().Text("driver", "580.65.06"));
}
Result nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return Fill("nvmlSystemGetNVMLVersion", text, length, "13." + Scenario().Text("driver", "580.65.06"));
}
Result nvmlSystemGetCudaDriverVersion_v2(int* value) {
  return Fill("nvmlSystemGetCudaDriverVersion_v2", value, "cuda.version", 13000);
}
Result nvmlDeviceGetCount_v2(unsigned* count) { return Fill("nvmlDeviceGetCount_v2", count, "devices", 1); }
Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = reinterpret_cast<Device>(uintptr_t{index} + 1);
  return Enter("nvmlDeviceGetHandleByIndex_v2");
}
Result nvmlDeviceGetName(Device device, char* text, unsigned length) {
  return Fill("nvmlDeviceGetName", text, length, Scenario().Text(Key(device, "name"), "Stand-in GPU"));
}
Result nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  std::string uuid = "GPU";
  for (unsigned i = 0; i < 16; ++i) {
    char part[8];
    std::snprintf(part, sizeof(part), "%s%02x", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                  static_cast<unsigned>(0x10 + IndexOf(device)));
    uuid += part;
  }
  return Fill("nvmlDeviceGetUUID", text, length, uuid);
}
Result nvmlDeviceGetPciInfo_v3(Device device, nvml::PciInfo* info) {
  char address[32];
  std::snprintf(address, sizeof(address), "00000000:%02x:00.0", static_cast<unsigned>(IndexOf(device)) + 1);
  return Fill("nvmlDeviceGetPciInfo_v3", info->bus_id, sizeof(info->bus_id), address);
}
Result nvmlDeviceGetMinorNumber(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetMinorNumber", value, Key(device, "minor"), IndexOf(device));
}
Result nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  Fill("nvmlDeviceGetCudaComputeCapability", minor, Key(device, "cc_minor"), 0);
  return Fill("nvmlDeviceGetCudaComputeCapability", major, Key(device, "cc_major"), 9);
}
Result nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  Fill("nvmlDeviceGetMigMode", pending, Key(device, "mig"), 0);
  return Fill("nvmlDeviceGetMigMode", current, Key(device, "mig"), 0);
}
Result nvmlDeviceGetMemoryInfo_v2(Device device, nvml::MemoryV2* memory) {
  if (memory->version != nvml::kMemoryV2) return 25;
  const char* call = "nvmlDeviceGetMemoryInfo_v2";
  Fill(call, &memory->total, Key(device, "memory_total"), 24 * kGiB);
  Fill(call, &memory->reserved, Key(device, "memory_reserved"), kGiB / 4);
  const Result code = Fill(call, &memory->used, Key(device, "memory_used"), 0);
  memory->free = memory->total - memory->used - memory->reserved;
  return code;
}
Result nvmlDeviceGetUtilizationRates(Device device, nvml::Utilization* rates) {
  Fill("nvmlDeviceGetUtilizationRates", &rates->memory, Key(device, "memory_activity"), 0);
  return Fill("nvmlDeviceGetUtilizationRates", &rates->gpu, Key(device, "utilization"), 0);
}
Result nvmlDeviceGetTemperature(Device device, unsigned, unsigned* value) {
  return Fill("nvmlDeviceGetTemperature", value, Key(device, "temperature"), 40);
}
Result nvmlDeviceGetPowerUsage(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetPowerUsage", value, Key(device, "power_milliwatts"), 60'000);
}
Result nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetEnforcedPowerLimit", value, Key(device, "power_limit_milliwatts"), 350'000);
}
Result nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* value) {
  return Fill("nvmlDeviceGetTotalEnergyConsumption", value, Key(device, "energy_millijoules"), 1'000'000);
}
Result nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned* value) {
  const bool memory = type == nvml::kClockMemory;
  return Fill("nvmlDeviceGetClockInfo", value, Key(device, memory ? "clock_memory" : "clock_sm"),
              memory ? 9500 : 1700);
}
Result nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned* value) {
  const bool memory = type == nvml::kClockMemory;
  return Fill("nvmlDeviceGetMaxClockInfo", value, Key(device, memory ? "clock_memory_max" : "clock_sm_max"),
              memory ? 9500 : 1980);
}
Result nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* value) {
  return Fill("nvmlDeviceGetCurrentClocksEventReasons", value, Key(device, "throttle_reasons"), 1);
}
Result nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetCurrPcieLinkGeneration", value, Key(device, "pcie_generation"), 4);
}
Result nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetMaxPcieLinkGeneration", value, Key(device, "pcie_generation_max"), 4);
}
Result nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetCurrPcieLinkWidth", value, Key(device, "pcie_width"), 16);
}
Result nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* value) {
  return Fill("nvmlDeviceGetMaxPcieLinkWidth", value, Key(device, "pcie_width_max"), 16);
}
Result nvmlDeviceGetTotalEccErrors(Device device, unsigned, unsigned, unsigned long long* value) {
  return Fill("nvmlDeviceGetTotalEccErrors", value, Key(device, "ecc_uncorrected"), 0);
}

// One process at most: device.N.process_pid with device.N.process_bytes.
Result nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, nvml::ProcessInfo* processes) {
  const Scenario scenario;
  const uint64_t pid = scenario.Number(Key(device, "process_pid"), 0);
  if (pid == 0 || *count == 0) {
    *count = 0;
    return Enter("nvmlDeviceGetComputeRunningProcesses_v3");
  }
  *count = 1;
  processes[0] = {static_cast<unsigned>(pid), scenario.Number(Key(device, "process_bytes"), ~uint64_t{0}),
                  ~0U, ~0U};
  return Enter("nvmlDeviceGetComputeRunningProcesses_v3");
}

Result nvmlEventSetCreate(nvml::EventSet* set) {
  *set = nullptr;
  return Enter("nvmlEventSetCreate");
}
Result nvmlDeviceRegisterEvents(Device, unsigned long long, nvml::EventSet) {
  return Enter("nvmlDeviceRegisterEvents");
}
// The first device's device.0.xid is pending for ever.
Result nvmlEventSetWait_v2(nvml::EventSet, nvml::EventData* event, unsigned) {
  if (const Result code = Enter("nvmlEventSetWait_v2")) return code;
  const uint64_t xid = Scenario().Number("device.0.xid", 0);
  if (xid == 0) return nvml::kTimeout;
  *event = {reinterpret_cast<Device>(uintptr_t{1}), nvml::kEventXid, xid, ~0U, ~0U};
  return 0;
}
Result nvmlEventSetFree(nvml::EventSet) { return Enter("nvmlEventSetFree"); }

}  // extern "C"
