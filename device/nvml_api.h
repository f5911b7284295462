// The few functions and structures of NVML that we call, as libnvidia-ml.so.1 exports them. Our own
// declarations; a test compares the structures' sizes with the published ones.
#pragma once

#include <cstddef>

namespace spillway::device::nvml {

using Result = int;  // nvmlReturn_t, 0 = success
using Device = void*;
using EventSet = void*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {  // used holds what the driver reserves
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;  // kMemoryV2 before the call
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | (2U << 24);
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;  // all ones where it is not known
  unsigned gpu_instance, compute_instance;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

constexpr Result kTimeout = 10;
// Of a single figure: not supported, no permission, function not found, another version of the structure.
constexpr bool IsNotOffered(Result code) { return code == 3 || code == 4 || code == 13 || code == 25; }
constexpr unsigned kClockSm = 1, kClockMemory = 2;
constexpr unsigned kTemperatureGpu = 0;
constexpr unsigned kEccUncorrected = 1, kEccVolatile = 0;
constexpr unsigned long long kEventXid = 8;

using ErrorString = const char* (*)(Result error);
using Init = Result (*)();
using Text = Result (*)(char* text, unsigned length);
using SystemNumber = Result (*)(int* value);
using DeviceCount = Result (*)(unsigned* count);
using DeviceByIndex = Result (*)(unsigned index, Device* device);
using DeviceText = Result (*)(Device device, char* text, unsigned length);
using DeviceNumber = Result (*)(Device device, unsigned* value);
using DeviceLong = Result (*)(Device device, unsigned long long* value);
using DeviceTyped = Result (*)(Device device, unsigned type, unsigned* value);
using DevicePair = Result (*)(Device device, unsigned* first, unsigned* second);
using DeviceEcc = Result (*)(Device device, unsigned error, unsigned counter, unsigned long long* value);
using DevicePci = Result (*)(Device device, PciInfo* info);
using DeviceMemory = Result (*)(Device device, Memory* memory);
using DeviceMemoryV2 = Result (*)(Device device, MemoryV2* memory);
using DeviceUtilization = Result (*)(Device device, Utilization* utilization);
using DeviceProcesses = Result (*)(Device device, unsigned* count, ProcessInfo* processes);
using EventSetCreate = Result (*)(EventSet* set);
using EventSetFree = Result (*)(EventSet set);
using RegisterEvents = Result (*)(Device device, unsigned long long types, EventSet set);
using EventSetWait = Result (*)(EventSet set, EventData* event, unsigned timeout_ms);

}  // namespace spillway::device::nvml
