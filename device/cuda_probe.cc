// The child's half asks, the parent's half collects. See cuda_probe.h.
#include "device/cuda_probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/cuda_api.h"
#include "device/library.h"

namespace spillway::device {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

// In the child. Every failing call is reported under the prefix and ends what belongs to it.
class Asker {
 public:
  Asker(const DriverLibrary& library, Report& report) : library_(library), report_(report) {}

  // Whether the function is there and returned success.
  template <typename Function, typename... Arguments>
  bool Call(const std::string& prefix, std::initializer_list<const char*> names, Arguments... arguments) {
    const char* name = *names.begin();
    const auto function = library_.Find<Function>(names);
    if (function == nullptr) {
      report_.Put("library_error", fmt::format("{} has no {}", library_.path(), name));
      return false;
    }
    report_.Step(name);
    const cuda::Result code = function(arguments...);
    if (code == 0) return true;
    const FailedCall failed = {name, code, NameOf(code)};
    PutFields(report_, prefix + "failed.", failed);
    return false;
  }

 private:
  std::string NameOf(cuda::Result code) const {
    const auto name_of = library_.Find<cuda::GetErrorName>({"cuGetErrorName"});
    const char* name = nullptr;
    return name_of != nullptr && name_of(code, &name) == 0 && name != nullptr ? name : "";
  }

  const DriverLibrary& library_;
  Report& report_;
};

std::string UuidText(const cuda::Uuid& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    text +=
        fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
  }
  return text;
}

void AskContext(Asker& asker, Report& report, const std::string& prefix, cuda::Device device) {
  cuda::Context context = nullptr;
  if (!asker.Call<cuda::PrimaryContextRetain>(prefix, {"cuDevicePrimaryCtxRetain"}, &context, device)) return;
  size_t free_bytes = 0, total_bytes = 0;
  if (asker.Call<cuda::ContextSetCurrent>(prefix, {"cuCtxSetCurrent"}, context) &&
      asker.Call<cuda::MemGetInfo>(prefix, {"cuMemGetInfo_v2", "cuMemGetInfo"}, &free_bytes, &total_bytes)) {
    report.Put(prefix + "free_bytes", std::optional<uint64_t>(free_bytes));
  }
  asker.Call<cuda::PrimaryContextRelease>(
      prefix, {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}, device);
}

void AskDevice(Asker& asker, Report& report, int index) {
  const std::string prefix = fmt::format("device.{}.", index);
  cuda::Device device = 0;
  char name[256] = {}, address[64] = {};
  cuda::Uuid uuid = {};
  int major = 0, minor = 0;
  size_t bytes = 0;
  if (!asker.Call<cuda::DeviceGet>(prefix, {"cuDeviceGet"}, &device, index)) return;
  if (!asker.Call<cuda::DeviceGetName>(prefix, {"cuDeviceGetName"}, name, static_cast<int>(sizeof(name) - 1),
                                       device)) {
    return;
  }
  const auto attribute = [&](int* value, int which) {
    return asker.Call<cuda::DeviceGetAttribute>(prefix, {"cuDeviceGetAttribute"}, value, which, device);
  };
  if (!attribute(&major, cuda::kComputeCapabilityMajor)) return;
  if (!attribute(&minor, cuda::kComputeCapabilityMinor)) return;
  if (!asker.Call<cuda::DeviceTotalMem>(prefix, {"cuDeviceTotalMem_v2", "cuDeviceTotalMem"}, &bytes,
                                        device)) {
    return;
  }
  CudaDevice facts;
  facts.name = name;
  facts.cc_major = major;
  facts.cc_minor = minor;
  facts.memory_bytes = bytes;
  if (asker.Call<cuda::DeviceGetUuid>(prefix, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}, &uuid, device)) {
    facts.uuid = UuidText(uuid);
  }
  if (asker.Call<cuda::DeviceGetPciBusId>(prefix, {"cuDeviceGetPCIBusId"}, address,
                                          static_cast<int>(sizeof(address) - 1), device)) {
    facts.pci_address = address;
  }
  PutFields(report, prefix, facts);
  AskContext(asker, report, prefix, device);
}

void AskDriver(const ProbeOptions& options, Report& report) {
  report.Step(std::string("opening ") + kLibrary);
  const DriverLibrary library(kLibrary, options.library_folder);
  if (!library.ok()) {
    report.Put("library_error", library.error());
    return;
  }
  report.Put("library", library.path());
  Asker asker(library, report);
  int version = 0, count = 0;
  // The version is answered without a device and tells why the next call fails.
  if (!asker.Call<cuda::DriverGetVersion>("", {"cuDriverGetVersion"}, &version)) return;
  report.Put("driver_version", std::optional<int>(version));
  if (!asker.Call<cuda::Init>("", {"cuInit"}, 0U)) return;
  if (!asker.Call<cuda::DeviceGetCount>("", {"cuDeviceGetCount"}, &count)) return;
  report.Put("device_count", std::optional<int>(count));
  for (int i = 0; i < count && i < static_cast<int>(kMostDevices); ++i) AskDevice(asker, report, i);
}

}  // namespace

CudaFacts ProbeCuda(const ProbeOptions& options) {
  CudaFacts facts;
  Fields fields;
  facts.run = RunInChild([&](Report& report) { AskDriver(options, report); }, options.deadline, &fields);
  GetFields(fields, "", &facts);
  GetFields(fields, "failed.", &facts.failed);
  for (uint64_t i = 0; i < std::min(facts.device_count.value_or(0), kMostDevices); ++i) {
    const std::string prefix = fmt::format("device.{}.", i);
    CudaDevice device;
    const bool known = GetFields(fields, prefix, &device);
    if (!GetFields(fields, prefix + "failed.", &device.failed) && !known) break;
    facts.devices.push_back(std::move(device));
  }
  return facts;
}

}  // namespace spillway::device
