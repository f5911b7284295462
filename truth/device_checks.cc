// One function per check; the order of CheckDevices is the order in which causes explain each other.
#include "truth/device_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "truth/device_codes.h"

namespace spillway::truth {
namespace {

using device::ChildEnd;
using device::CudaDevice;
using device::FailedCall;
using device::GpuFacts;
using device::NvmlDevice;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// What others may hold without a word: a desktop, the driver's own context.
constexpr uint64_t kForeignBytes = 1024 * kMiB;

std::string Name(size_t index, const char* what) { return fmt::format("cuda:{}{}", index, what); }

std::string Version(uint64_t version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string Told(const FailedCall& failed) {
  return fmt::format("{} returned {}{}", failed.call, *failed.code,
                     failed.name.empty() ? "" : " (" + failed.name + ")");
}

// Facts that make a failed call understandable.
std::string Circumstances(const GpuFacts& facts) {
  std::string text;
  if (const device::DeviceNode* node = DeniedNode(facts)) {
    text += fmt::format("; opening {}: {}", node->path, std::strerror(node->open_error));
  }
  for (const device::DeviceNode& node : facts.nodes) {
    if (!node.exists) text += fmt::format("; {} is missing", node.path);
  }
  if (facts.cuda_visible_devices)
    text += fmt::format("; CUDA_VISIBLE_DEVICES=\"{}\"", *facts.cuda_visible_devices);
  if (facts.nvml.device_count) text += fmt::format("; NVML counts {} device(s)", *facts.nvml.device_count);
  return text;
}

// The version that the library's file is named by: "libcuda.so.535.183.01".
std::string LibraryVersion(const std::string& path) {
  const size_t at = path.rfind(".so.");
  const std::string version = at == std::string::npos ? "" : path.substr(at + 4);
  return version.find('.') == std::string::npos ? "" : version;
}

// How the child ended, when not well.
std::optional<DeviceCheck> CheckRun(const char* name, const device::ChildRun& run) {
  switch (run.end) {
    case ChildEnd::kDone:
      return std::nullopt;
    case ChildEnd::kTimedOut:
      return DeviceCheck{
          name, "probe_timeout",
          fmt::format("{} did not return within {:.1f} s; the probe was ended", run.step, run.seconds)};
    case ChildEnd::kCrashed:
      return DeviceCheck{name, "probe_timeout",
                         fmt::format("the driver's library crashed in {} (signal {}, {})", run.step,
                                     run.signal, strsignal(run.signal))};
    case ChildEnd::kFailed:
      break;
  }
  return DeviceCheck{name, "unknown", fmt::format("the probe failed after {}: {}", run.step, run.error)};
}

DeviceCheck CheckModule(const GpuFacts& facts) {
  DeviceCheck check{"kernel module", "", facts.files.driver_version};
  // Virtual machines and sandboxes show no such file and work.
  if (facts.files.driver_loaded || facts.cuda.usable()) return check;
  check.cause = "driver_absent";
  check.detail = fmt::format("no /proc/driver/nvidia/version, and {} NVIDIA device(s) on the PCI bus",
                             facts.files.displays.size());
  return check;
}

DeviceCheck CheckLibrary(const GpuFacts& facts) {
  DeviceCheck check{"driver library", "", facts.cuda.library};
  if (facts.cuda.library_error.empty()) return check;
  check.cause = "driver_absent";
  check.detail = facts.cuda.library_error;
  if (facts.nvidia_visible_devices) {
    check.detail += fmt::format("; NVIDIA_VISIBLE_DEVICES=\"{}\"", *facts.nvidia_visible_devices);
  }
  return check;
}

DeviceCheck CheckVersion(const GpuFacts& facts, const DeviceNeeds& needs) {
  const uint64_t version = *facts.cuda.driver_version;
  DeviceCheck check{"driver version", "", fmt::format("CUDA {}", Version(version))};
  if (!facts.nvml.driver_version.empty()) check.detail += ", driver " + facts.nvml.driver_version;
  if (version >= needs.cuda_version) return check;
  check.cause = "driver_too_old";
  check.detail += fmt::format("; CUDA {} is needed", Version(needs.cuda_version));
  return check;
}

// The first call that has no device yet.
DeviceCheck CheckStart(const GpuFacts& facts) {
  DeviceCheck check{"driver start", "", fmt::format("{} device(s) visible", facts.cuda.devices.size())};
  const std::string library = LibraryVersion(facts.cuda.library), &module = facts.files.driver_version;
  const bool differ = !library.empty() && !module.empty() && library != module;
  const std::string versions = fmt::format("; kernel module {}, library {}", module, library);
  if (!facts.cuda.failed.code) {
    if (facts.cuda.devices.empty()) {
      check.cause = CauseOfCuda(100, facts);
      check.detail = "the driver started and shows no device" + Circumstances(facts);
    }
    return check;
  }
  check.cause = CauseOfCuda(*facts.cuda.failed.code, facts);
  check.detail = Told(facts.cuda.failed) + Circumstances(facts);
  // A library for another kernel module may answer anything; versions that differ explain it.
  if (differ) check.detail += versions;
  if (differ && check.cause != "driver_too_old") check.cause = "driver_mismatch";
  return check;
}

DeviceCheck CheckDevice(const CudaDevice& device, size_t index, const GpuFacts& facts,
                        const DeviceNeeds& needs) {
  DeviceCheck check{Name(index, ""), "", ""};
  if (device.failed.code) {
    check.cause = CauseOfCuda(*device.failed.code, facts);
    check.detail = Told(device.failed) + Circumstances(facts);
    return check;
  }
  const uint64_t major = device.cc_major.value_or(0), minor = device.cc_minor.value_or(0);
  check.detail = fmt::format("{}, compute capability {}.{}", device.name, major, minor);
  if (major < needs.cc_major || (major == needs.cc_major && minor < needs.cc_minor)) {
    check.cause = "arch_unsupported";
    check.detail += fmt::format("; {}.{} is the oldest with code", needs.cc_major, needs.cc_minor);
  }
  return check;
}

// NVML is an aid: without it a device works. Its own failure is a finding all the same, since nothing can be
// observed then.
DeviceCheck CheckNvml(const GpuFacts& facts) {
  DeviceCheck check{"management library", "", "NVML " + facts.nvml.nvml_version, false};
  if (!facts.nvml.library_error.empty()) {
    check.cause = "driver_absent";
    check.detail = facts.nvml.library_error;
  } else if (facts.nvml.failed.code) {
    check.cause = CauseOfNvml(*facts.nvml.failed.code, facts);
    check.detail = Told(facts.nvml.failed) + Circumstances(facts);
  } else if (facts.nvml.device_count.value_or(0) > device::kMostDevices) {
    check.cause = "unknown";
    check.detail = fmt::format("NVML counts {} devices, which cannot be true", *facts.nvml.device_count);
  }
  return check;
}

DeviceCheck CheckHealth(const NvmlDevice& device, const std::string& name, const GpuFacts& facts) {
  DeviceCheck check{name + " health", "", ""};
  if (device.failed.code) {
    check.cause = CauseOfNvml(*device.failed.code, facts);
    check.detail = Told(device.failed) + Circumstances(facts);
    return check;
  }
  if (device.xid && IsFatalXid(*device.xid)) {
    check.cause = "device_lost";
    check.detail = fmt::format("Xid {}", *device.xid);
    return check;
  }
  if (!device.implausible.empty()) {
    check.cause = "unknown";
    check.detail = "NVML's figures cannot be true: " + device.implausible;
    check.stops = false;
    return check;
  }
  if (device.temperature) check.detail += fmt::format("{} degrees C, ", *device.temperature);
  check.detail += fmt::format("{} uncorrectable ECC errors", device.ecc_uncorrected.value_or(0));
  if (device.xid) check.detail += fmt::format(", Xid {}", *device.xid);
  return check;
}

bool IsOurs(const device::GpuProcess& process) { return process.name.rfind("spillway", 0) == 0; }

// Of the used memory only what our own processes hold is accounted for.
DeviceCheck CheckMemory(const NvmlDevice& device, const std::string& name) {
  const uint64_t total = *device.memory_total_bytes, used = *device.memory_used_bytes;
  uint64_t ours = 0;
  std::string others;
  for (const device::GpuProcess& process : device.processes) {
    if (IsOurs(process)) {
      ours += process.bytes.value_or(0);
      continue;
    }
    others += fmt::format("{}process {} ({})", others.empty() ? "" : ", ", process.pid.value_or(0),
                          process.name.empty() ? "of another namespace" : process.name);
    if (process.bytes) others += fmt::format(" {} MiB", *process.bytes / kMiB);
  }
  const uint64_t foreign = used - std::min(used, ours);
  DeviceCheck check{
      name + " memory", "",
      fmt::format("{} of {} MiB used, {} MiB of it by others", used / kMiB, total / kMiB, foreign / kMiB)};
  check.stops = false;
  if (foreign > std::max(kForeignBytes, total / 20)) {
    check.cause = "vram_foreign";
    check.detail += ": " + (others.empty() ? "processes that NVML does not list" : others);
  }
  return check;
}

DeviceCheck CheckClocks(const NvmlDevice& device, const std::string& name) {
  struct Reason {
    uint64_t bit;
    const char* name;
    bool slows;  // beyond what the power limit means under load
  };
  constexpr Reason kReasons[] = {{0x1, "idle", false},
                                 {0x2, "clocks setting", false},
                                 {0x4, "power cap", false},
                                 {0x8, "hardware slowdown", true},
                                 {0x10, "sync boost", false},
                                 {0x20, "software thermal slowdown", true},
                                 {0x40, "hardware thermal slowdown", true},
                                 {0x80, "power brake", true},
                                 {0x100, "display clock", false}};
  DeviceCheck check{name + " clocks", "", "", false};
  for (const Reason& reason : kReasons) {
    if ((*device.throttle_reasons & reason.bit) == 0) continue;
    check.detail += fmt::format("{}{}", check.detail.empty() ? "" : ", ", reason.name);
    if (reason.slows) check.cause = "slow_gpu";
  }
  if (check.detail.empty()) check.detail = "not held back";
  if (device.clock_sm && device.clock_sm_max) {
    check.detail += fmt::format("; SM {} of {} MHz", *device.clock_sm, *device.clock_sm_max);
  }
  if (device.power_watts && device.power_limit_watts) {
    check.detail += fmt::format("; {:.0f} of {:.0f} W", *device.power_watts, *device.power_limit_watts);
  }
  return check;
}

// Told, never a finding: generations fall while a device idles, and many slots are narrow on purpose.
DeviceCheck CheckLink(const NvmlDevice& device, const std::string& name) {
  return {name + " link", "",
          fmt::format("PCIe generation {} of {}, {} of {} lanes", device.pcie_generation.value_or(0),
                      device.pcie_generation_max.value_or(0), *device.pcie_width,
                      device.pcie_width_max.value_or(0))};
}

void CheckNvmlDevice(const NvmlDevice& device, const std::string& name, const GpuFacts& facts,
                     std::vector<DeviceCheck>* checks) {
  checks->push_back(CheckHealth(device, name, facts));
  if (device.memory_total_bytes && device.memory_used_bytes) checks->push_back(CheckMemory(device, name));
  if (device.throttle_reasons) checks->push_back(CheckClocks(device, name));
  if (device.pcie_width) checks->push_back(CheckLink(device, name));
}

// As CUDA numbers it; a device that CUDA does not show keeps NVML's number. Addresses of the two libraries
// differ in the width of the domain.
std::string NameOf(const NvmlDevice& device, size_t index, const GpuFacts& facts,
                   std::optional<size_t>* visible) {
  const auto tail = [](const std::string& text) { return text.substr(text.find(':') + 1); };
  for (size_t i = 0; i < facts.cuda.devices.size(); ++i) {
    const CudaDevice& cuda = facts.cuda.devices[i];
    const bool same = !device.uuid.empty() && device.uuid == cuda.uuid;
    if (!same && (device.pci_address.empty() || tail(device.pci_address) != tail(cuda.pci_address))) continue;
    *visible = i;
    return Name(i, "");
  }
  return fmt::format("nvml:{}", index);
}

void CheckCuda(const GpuFacts& facts, const DeviceNeeds& needs, std::vector<DeviceCheck>* checks) {
  if (const auto ended = CheckRun("driver probe", facts.cuda.run)) {
    checks->push_back(*ended);
    return;
  }
  checks->push_back(CheckLibrary(facts));
  if (!checks->back().ok()) return;
  if (facts.cuda.driver_version) checks->push_back(CheckVersion(facts, needs));
  checks->push_back(CheckStart(facts));
  if (!checks->back().ok()) return;
  for (size_t i = 0; i < facts.cuda.devices.size(); ++i) {
    if (needs.device.value_or(i) == i) checks->push_back(CheckDevice(facts.cuda.devices[i], i, facts, needs));
  }
  if (needs.device && *needs.device >= facts.cuda.devices.size()) {
    checks->push_back(
        {Name(*needs.device, ""), "device_hidden",
         fmt::format("{} device(s) visible", facts.cuda.devices.size()) + Circumstances(facts)});
  }
}

}  // namespace

std::vector<DeviceCheck> CheckDevices(const GpuFacts& facts, const DeviceNeeds& needs) {
  std::vector<DeviceCheck> checks;
  if (!facts.present()) return checks;
  checks.push_back(CheckModule(facts));
  CheckCuda(facts, needs, &checks);
  if (const auto ended = CheckRun("management probe", facts.nvml.run)) {
    checks.push_back(*ended);
    checks.back().stops = false;
  } else {
    checks.push_back(CheckNvml(facts));
  }
  for (size_t i = 0; i < facts.nvml.devices.size(); ++i) {
    std::optional<size_t> visible;
    const std::string name = NameOf(facts.nvml.devices[i], i, facts, &visible);
    if (needs.device && visible != *needs.device) continue;
    CheckNvmlDevice(facts.nvml.devices[i], name, facts, &checks);
  }
  return checks;
}

const DeviceCheck* FirstProblem(const std::vector<DeviceCheck>& checks) {
  const auto found = std::find_if(checks.begin(), checks.end(), [](const DeviceCheck& c) { return !c.ok(); });
  return found == checks.end() ? nullptr : &*found;
}

const DeviceCheck* FirstObstacle(const std::vector<DeviceCheck>& checks) {
  const auto stops = [](const DeviceCheck& check) { return !check.ok() && check.stops; };
  const auto found = std::find_if(checks.begin(), checks.end(), stops);
  return found == checks.end() ? nullptr : &*found;
}

Examination ExamineDevices(const std::function<GpuFacts()>& read, const DeviceNeeds& needs,
                           std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kFirst{100}, kLongest{2000};
  const auto until = std::chrono::steady_clock::now() + patience;
  Examination examination;
  for (auto pause = kFirst;; pause = std::min(2 * pause, kLongest)) {
    examination.facts = read();
    examination.checks = CheckDevices(examination.facts, needs);
    ++examination.attempts;
    const DeviceCheck* problem = FirstProblem(examination.checks);
    if (problem == nullptr || problem->cause != "device_not_ready") return examination;
    if (std::chrono::steady_clock::now() + pause > until) return examination;
    std::this_thread::sleep_for(pause);
  }
}

std::string Describe(const DeviceCheck& check) {
  const CauseInfo* cause = FindCause(check.cause);
  return fmt::format("cause={} ({}) {}: {}. {} Remedy: {}", cause->name, cause->id, check.name, check.detail,
                     cause->meaning, cause->remedy);
}

}  // namespace spillway::truth
