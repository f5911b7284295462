// The few functions of the CUDA driver API that the probe calls, as the driver's library exports them. Our
// own declarations: nothing of a CUDA toolkit is needed to build.
#pragma once

#include <cstddef>

namespace spillway::device::cuda {

using Result = int;  // CUresult, 0 = success
using Device = int;  // CUdevice
using Context = void*;

struct Uuid {
  unsigned char bytes[16];
};

constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;

using GetErrorName = Result (*)(Result error, const char** name);
using Init = Result (*)(unsigned flags);
using DriverGetVersion = Result (*)(int* version);
using DeviceGetCount = Result (*)(int* count);
using DeviceGet = Result (*)(Device* device, int ordinal);
using DeviceGetName = Result (*)(char* name, int length, Device device);
using DeviceGetAttribute = Result (*)(int* value, int attribute, Device device);
using DeviceTotalMem = Result (*)(size_t* bytes, Device device);
using DeviceGetUuid = Result (*)(Uuid* uuid, Device device);
using DeviceGetPciBusId = Result (*)(char* address, int length, Device device);
using PrimaryContextRetain = Result (*)(Context* context, Device device);
using PrimaryContextRelease = Result (*)(Device device);
using ContextSetCurrent = Result (*)(Context context);
using MemGetInfo = Result (*)(size_t* free_bytes, size_t* total_bytes);

}  // namespace spillway::device::cuda
