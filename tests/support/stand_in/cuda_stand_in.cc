// A libcuda.so.1 without a device: the functions of device/cuda_api.h, answered from a scenario.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "device/cuda_api.h"
#include "tests/support/stand_in/scenario.h"

using spillway::device::cuda::Context;
using spillway::device::cuda::Device;
using spillway::device::cuda::Result;
using spillway::device::cuda::Uuid;
using spillway::stand_in::Enter;
using spillway::stand_in::Scenario;

namespace {

constexpr Result kInvalidValue = 1, kNoDevice = 100;

// The machine's numbers of the devices that CUDA_VISIBLE_DEVICES leaves: a list that ends at the first that
// is no device.
std::vector<int> Visible() {
  const int all = static_cast<int>(Scenario().Number("devices", 1));
  std::vector<int> visible;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  for (int i = 0; list == nullptr && i < all; ++i) visible.push_back(i);
  std::istringstream words(list == nullptr ? "" : list);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long number = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || number < 0 || number >= all) break;
    visible.push_back(static_cast<int>(number));
  }
  return visible;
}

std::string Key(Device device, const char* name) { return "device." + std::to_string(device) + "." + name; }

Result Copy(const std::string& text, char* out, int length) {
  std::snprintf(out, static_cast<size_t>(length), "%s", text.c_str());
  return 0;
}

}  // namespace

extern "C" {

Result cuGetErrorName(Result error, const char** name) {
  struct Row {
    Result code;
    const char* name;
  };
  static constexpr Row kRows[] = {{2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                  {34, "CUDA_ERROR_STUB_LIBRARY"},
                                  {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                  {100, "CUDA_ERROR_NO_DEVICE"},
                                  {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                                  {800, "CUDA_ERROR_NOT_PERMITTED"},
                                  {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
                                  {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                                  {999, "CUDA_ERROR_UNKNOWN"}};
  for (const Row& row : kRows) {
    if (row.code != error) continue;
    *name = row.name;
    return 0;
  }
  return kInvalidValue;
}

Result cuDriverGetVersion(int* version) {
  if (const Result code = Enter("cuDriverGetVersion")) return code;
  *version = static_cast<int>(Scenario().Number("cuda.version", 13000));
  return 0;
}

Result cuInit(unsigned) {
  if (const Result code = Enter("cuInit")) return code;
  return Visible().empty() ? kNoDevice : 0;
}

Result cuDeviceGetCount(int* count) {
  if (const Result code = Enter("cuDeviceGetCount")) return code;
  *count = static_cast<int>(Scenario().Number("cuda.devices", Visible().size()));
  return 0;
}

Result cuDeviceGet(Device* device, int ordinal) {
  if (const Result code = Enter("cuDeviceGet")) return code;
  const std::vector<int> visible = Visible();
  if (ordinal < 0 || ordinal >= static_cast<int>(visible.size())) return kInvalidValue;
  *device = visible[static_cast<size_t>(ordinal)];
  return 0;
}

Result cuDeviceGetName(char* name, int length, Device device) {
  if (const Result code = Enter("cuDeviceGetName")) return code;
  return Copy(Scenario().Text(Key(device, "name"), "Stand-in GPU"), name, length);
}

Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  if (const Result code = Enter("cuDeviceGetAttribute")) return code;
  const bool major = attribute == spillway::device::cuda::kComputeCapabilityMajor;
  *value = static_cast<int>(Scenario().Number(Key(device, major ? "cc_major" : "cc_minor"), major ? 9 : 0));
  return 0;
}

Result cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  if (const Result code = Enter("cuDeviceTotalMem_v2")) return code;
  *bytes = Scenario().Number(Key(device, "memory_total"), size_t{24} << 30);
  return 0;
}

Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  if (const Result code = Enter("cuDeviceGetUuid_v2")) return code;
  std::fill(std::begin(uuid->bytes), std::end(uuid->bytes), static_cast<unsigned char>(0x10 + device));
  return 0;
}

Result cuDeviceGetPCIBusId(char* address, int length, Device device) {
  if (const Result code = Enter("cuDeviceGetPCIBusId")) return code;
  std::snprintf(address, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
  return 0;
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  if (const Result code = Enter("cuDevicePrimaryCtxRetain")) return code;
  *context = reinterpret_cast<Context>(static_cast<uintptr_t>(device) + 1);
  return 0;
}

Result cuCtxSetCurrent(Context) { return Enter("cuCtxSetCurrent"); }

Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  if (const Result code = Enter("cuMemGetInfo_v2")) return code;
  *total_bytes = Scenario().Number("device.0.memory_total", size_t{24} << 30);
  *free_bytes = *total_bytes - std::min<size_t>(*total_bytes, Scenario().Number("device.0.memory_used", 0));
  return 0;
}

Result cuDevicePrimaryCtxRelease_v2(Device) { return Enter("cuDevicePrimaryCtxRelease_v2"); }

}  // extern "C"
