// Codes as in cuda.h (13.0) and nvml.h (13): see the rows.
#include "truth/device_codes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

namespace spillway::truth {
namespace {

struct Row {
  int64_t code;
  std::string_view cause;
};

constexpr Row kCuda[] = {
    {2, "vram_foreign"},        // out of memory for a bare context: others hold it all
    {34, "driver_absent"},      // the toolkit's stub instead of the driver's library
    {35, "driver_too_old"},     // insufficient driver
    {36, "driver_too_old"},     // the call requires a newer driver
    {46, "vram_foreign"},       // unavailable: held by somebody in exclusive mode
    {101, "device_hidden"},     // invalid device
    {209, "arch_unsupported"},  // no binary for the device
    {214, "device_lost"},       // uncorrectable ECC error
    {220, "device_lost"},       // uncorrectable NVLink error
    {222, "driver_too_old"},    // PTX version unsupported
    {800, "cgroup_denied"},     // not permitted
    {802, "device_not_ready"},  // system not ready (fabric manager)
    {803, "driver_mismatch"},   // kernel module and library
    {804, "driver_mismatch"},   // forward compatibility on a device that has none
    {807, "device_not_ready"},  // MPS server not ready
};

constexpr Row kNvml[] = {
    {4, "cgroup_denied"},      // no permission
    {9, "driver_absent"},      // driver not loaded
    {11, "device_lost"},       // interrupt issue
    {12, "driver_absent"},     // library not found
    {15, "device_lost"},       // GPU is lost
    {16, "device_lost"},       // reset required
    {17, "cgroup_denied"},     // the control device is blocked by the operating system or cgroups
    {18, "driver_mismatch"},   // kernel module and library
    {27, "device_not_ready"},  // system not ready
};

// Machines sleep on purpose or not at all: a second is clock noise.
constexpr double kSuspendedSeconds = 1;

template <size_t n>
std::string_view Find(const Row (&rows)[n], int64_t code) {
  const Row* found =
      std::find_if(std::begin(rows), std::end(rows), [code](const Row& r) { return r.code == code; });
  return found == std::end(rows) ? "" : found->cause;
}

bool MigWithoutInstance(const device::GpuFacts& facts) {
  const auto& devices = facts.nvml.devices;
  return std::any_of(devices.begin(), devices.end(), [](const auto& d) { return d.mig_enabled == 1; });
}

// NVML's word where it is precise; CUDA answers "unknown" or "no device" to the same state.
std::string_view PreciseNvml(const device::GpuFacts& facts) {
  std::string_view cause = Find(kNvml, facts.nvml.failed.code.value_or(0));
  for (const device::NvmlDevice& device : facts.nvml.devices) {
    if (cause.empty()) cause = Find(kNvml, device.failed.code.value_or(0));
    if (cause.empty() && IsFatalXid(device.xid.value_or(0))) cause = "device_lost";
  }
  return cause;
}

// "No device" although the driver is there: somebody hides it, or it is not up yet.
std::string_view CauseOfNoDevice(const device::GpuFacts& facts) {
  if (DeniedNode(facts) != nullptr) return "cgroup_denied";
  return facts.cuda_visible_devices || MigWithoutInstance(facts) ? "device_hidden" : "device_not_ready";
}

}  // namespace

const device::DeviceNode* DeniedNode(const device::GpuFacts& facts) {
  const auto denied = [](const device::DeviceNode& node) {
    return node.open_error == EPERM || node.open_error == EACCES;
  };
  const auto found = std::find_if(facts.nodes.begin(), facts.nodes.end(), denied);
  return found == facts.nodes.end() ? nullptr : &*found;
}

bool IsFatalXid(uint64_t xid) {
  // Double-bit ECC, NVLink, off the bus, contained and uncontained ECC, GSP time-outs, row remapping failure.
  constexpr std::array<uint64_t, 9> kFatal = {48, 64, 74, 79, 94, 95, 119, 120, 140};
  return std::find(kFatal.begin(), kFatal.end(), xid) != kFatal.end();
}

std::string_view CauseOfCuda(int64_t code, const device::GpuFacts& facts) {
  constexpr int64_t kNoDevice = 100, kOperatingSystem = 304, kUnknown = 999;
  const bool vague = code == kNoDevice || code == kOperatingSystem || code == kUnknown;
  if (const std::string_view cause = PreciseNvml(facts); vague && !cause.empty()) return cause;
  if (code == kNoDevice) return CauseOfNoDevice(facts);
  if (vague) {
    if (DeniedNode(facts) != nullptr) return "cgroup_denied";
    return facts.suspended_seconds > kSuspendedSeconds ? "resume_broken" : "device_not_ready";
  }
  const std::string_view cause = Find(kCuda, code);
  return cause.empty() ? "unknown" : cause;
}

std::string_view CauseOfNvml(int64_t code, const device::GpuFacts& facts) {
  const std::string_view cause = Find(kNvml, code);
  if (!cause.empty()) return cause;
  return DeniedNode(facts) != nullptr ? "cgroup_denied" : "unknown";
}

}  // namespace spillway::truth
