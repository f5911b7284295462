// The child's half asks, the parent's half collects. See nvml_probe.h.
#include "device/nvml_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/library.h"
#include "device/nvml_api.h"

namespace spillway::device {
namespace {

constexpr char kLibrary[] = "libnvidia-ml.so.1";
constexpr unsigned kTextBytes = 96, kMostProcesses = 1024;
constexpr unsigned kListenMs = 20;  // for an event that is pending

// In the child.
class Nvml {
 public:
  Nvml(const DriverLibrary& library, Report& report) : library_(library), report_(report) {}

  // nullopt when the library has no such function.
  template <typename Function, typename... Arguments>
  std::optional<nvml::Result> Try(std::initializer_list<const char*> names, Arguments... arguments) {
    const auto function = library_.Find<Function>(names);
    if (function == nullptr) return std::nullopt;
    report_.Step(*names.begin());
    return function(arguments...);
  }

  // Without it nothing else makes sense: a failure is reported under the prefix.
  template <typename Function, typename... Arguments>
  bool Must(const std::string& prefix, std::initializer_list<const char*> names, Arguments... arguments) {
    const auto code = Try<Function>(names, arguments...);
    if (!code) {
      report_.Put("library_error", fmt::format("{} has no {}", library_.path(), *names.begin()));
    } else if (*code != 0) {
      Fail(prefix, *names.begin(), *code);
    }
    return code == 0;
  }

  void Fail(const std::string& prefix, const char* call, nvml::Result code) {
    const auto text_of = library_.Find<nvml::ErrorString>({"nvmlErrorString"});
    const char* text = text_of == nullptr ? nullptr : text_of(code);
    PutFields(report_, prefix + "failed.", FailedCall{call, code, text == nullptr ? "" : text});
  }

  Report& report() { return report_; }

 private:
  const DriverLibrary& library_;
  Report& report_;
};

// One device in the child: what is not offered stays empty; the first real error is kept, since a device that
// was lost answers every call with it.
class DeviceAsker {
 public:
  DeviceAsker(Nvml& nvml, nvml::Device device, std::string prefix)
      : nvml_(nvml), device_(device), prefix_(std::move(prefix)) {}

  template <typename Function, typename... Arguments>
  bool Ask(std::initializer_list<const char*> names, Arguments... arguments) {
    const auto code = nvml_.Try<Function>(names, device_, arguments...);
    if (code == 0) return true;
    if (!code || nvml::IsNotOffered(*code)) return false;
    if (!failed_) nvml_.Fail(prefix_, *names.begin(), *code);
    failed_ = true;
    return false;
  }
  std::string Text(std::initializer_list<const char*> names) {
    char text[kTextBytes + 1] = {};
    return Ask<nvml::DeviceText>(names, text, kTextBytes) ? text : "";
  }
  std::optional<uint64_t> Number(const char* name) {
    unsigned value = 0;
    if (!Ask<nvml::DeviceNumber>({name}, &value)) return std::nullopt;
    return value;
  }
  std::optional<uint64_t> Typed(const char* name, unsigned type) {
    unsigned value = 0;
    if (!Ask<nvml::DeviceTyped>({name}, type, &value)) return std::nullopt;
    return value;
  }
  std::optional<uint64_t> Long(std::initializer_list<const char*> names) {
    unsigned long long value = 0;
    if (!Ask<nvml::DeviceLong>(names, &value)) return std::nullopt;
    return value;
  }
  std::optional<double> Thousandths(std::optional<uint64_t> value) {
    if (!value) return std::nullopt;
    return static_cast<double>(*value) * 1e-3;
  }
  void Processes();
  void Memory(NvmlDevice* facts);
  void Identity(NvmlDevice* facts);
  void Load(NvmlDevice* facts);

 private:
  Nvml& nvml_;
  const nvml::Device device_;
  const std::string prefix_;
  bool failed_ = false;
};

void DeviceAsker::Identity(NvmlDevice* facts) {
  facts->name = Text({"nvmlDeviceGetName"});
  facts->uuid = Text({"nvmlDeviceGetUUID"});
  nvml::PciInfo pci = {};
  if (Ask<nvml::DevicePci>({"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"}, &pci)) {
    facts->pci_address = std::string(pci.bus_id, strnlen(pci.bus_id, sizeof(pci.bus_id)));
  }
  facts->minor_number = Number("nvmlDeviceGetMinorNumber");
  int major = 0, minor = 0;
  using Capability = nvml::Result (*)(nvml::Device, int*, int*);
  if (Ask<Capability>({"nvmlDeviceGetCudaComputeCapability"}, &major, &minor)) {
    facts->cc_major = major;
    facts->cc_minor = minor;
  }
  unsigned mig = 0, pending = 0;
  if (Ask<nvml::DevicePair>({"nvmlDeviceGetMigMode"}, &mig, &pending)) facts->mig_enabled = mig;
}

void DeviceAsker::Memory(NvmlDevice* facts) {
  nvml::MemoryV2 second = {};
  second.version = nvml::kMemoryV2;
  nvml::Memory first = {};
  if (Ask<nvml::DeviceMemoryV2>({"nvmlDeviceGetMemoryInfo_v2"}, &second)) {
    facts->memory_total_bytes = second.total;
    facts->memory_used_bytes = second.used;
    facts->memory_reserved_bytes = second.reserved;
  } else if (Ask<nvml::DeviceMemory>({"nvmlDeviceGetMemoryInfo"}, &first)) {
    facts->memory_total_bytes = first.total;
    facts->memory_used_bytes = first.used;
  }
}

void DeviceAsker::Load(NvmlDevice* facts) {
  nvml::Utilization utilization = {};
  if (Ask<nvml::DeviceUtilization>({"nvmlDeviceGetUtilizationRates"}, &utilization)) {
    facts->utilization = utilization.gpu;
    facts->memory_activity = utilization.memory;
  }
  facts->temperature = Typed("nvmlDeviceGetTemperature", nvml::kTemperatureGpu);
  facts->power_watts = Thousandths(Number("nvmlDeviceGetPowerUsage"));
  facts->power_limit_watts = Thousandths(Number("nvmlDeviceGetEnforcedPowerLimit"));
  facts->energy_joules = Thousandths(Long({"nvmlDeviceGetTotalEnergyConsumption"}));
  facts->clock_sm = Typed("nvmlDeviceGetClockInfo", nvml::kClockSm);
  facts->clock_sm_max = Typed("nvmlDeviceGetMaxClockInfo", nvml::kClockSm);
  facts->clock_memory = Typed("nvmlDeviceGetClockInfo", nvml::kClockMemory);
  facts->clock_memory_max = Typed("nvmlDeviceGetMaxClockInfo", nvml::kClockMemory);
  facts->throttle_reasons =
      Long({"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  facts->pcie_generation = Number("nvmlDeviceGetCurrPcieLinkGeneration");
  facts->pcie_generation_max = Number("nvmlDeviceGetMaxPcieLinkGeneration");
  facts->pcie_width = Number("nvmlDeviceGetCurrPcieLinkWidth");
  facts->pcie_width_max = Number("nvmlDeviceGetMaxPcieLinkWidth");
  unsigned long long ecc = 0;
  if (Ask<nvml::DeviceEcc>({"nvmlDeviceGetTotalEccErrors"}, nvml::kEccUncorrected, nvml::kEccVolatile,
                           &ecc)) {
    facts->ecc_uncorrected = ecc;
  }
}

void DeviceAsker::Processes() {
  size_t reported = 0;
  for (const char* name :
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"}) {
    std::vector<nvml::ProcessInfo> processes(kMostProcesses);
    unsigned count = kMostProcesses;
    if (!Ask<nvml::DeviceProcesses>({name}, &count, processes.data())) continue;
    for (unsigned i = 0; i < std::min(count, kMostProcesses); ++i) {
      GpuProcess process;
      process.pid = processes[i].pid;
      if (processes[i].used_bytes != ~0ULL) process.bytes = processes[i].used_bytes;
      PutFields(nvml_.report(), fmt::format("{}process.{}.", prefix_, reported++), process);
    }
  }
}

// Figures that no device can have are dropped and named; what is left can be computed with.
void DropImplausible(NvmlDevice* facts) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;
  const auto drop = [&](const char* name, auto* field, bool implausible) {
    if (!implausible) return;
    field->reset();
    facts->implausible += (facts->implausible.empty() ? "" : " ") + std::string(name);
  };
  const auto above = [](const auto& field, auto most) { return field && *field > most; };
  drop("memory_total", &facts->memory_total_bytes, above(facts->memory_total_bytes, kMostBytes));
  drop("memory_used", &facts->memory_used_bytes,
       above(facts->memory_used_bytes, facts->memory_total_bytes.value_or(kMostBytes)));
  drop("memory_reserved", &facts->memory_reserved_bytes,
       above(facts->memory_reserved_bytes, facts->memory_total_bytes.value_or(kMostBytes)));
  drop("utilization", &facts->utilization, above(facts->utilization, 100U));
  drop("memory_activity", &facts->memory_activity, above(facts->memory_activity, 100U));
  drop("temperature", &facts->temperature, above(facts->temperature, 200U));
  drop("power", &facts->power_watts, above(facts->power_watts, 1e5));
  drop("power_limit", &facts->power_limit_watts, above(facts->power_limit_watts, 1e5));
  drop("energy", &facts->energy_joules, above(facts->energy_joules, 1e13));
  drop("clock_sm", &facts->clock_sm, above(facts->clock_sm, 100'000U));
  drop("clock_memory", &facts->clock_memory, above(facts->clock_memory, 100'000U));
  drop("pcie_generation", &facts->pcie_generation, above(facts->pcie_generation, 16U));
  drop("pcie_width", &facts->pcie_width, above(facts->pcie_width, 64U));
  drop("throttle_reasons", &facts->throttle_reasons, above(facts->throttle_reasons, uint64_t{1} << 32));
}

// An event that is pending for any of the devices.
void AskEvents(Nvml& nvml, const std::vector<nvml::Device>& devices) {
  nvml::EventSet set = nullptr;
  if (nvml.Try<nvml::EventSetCreate>({"nvmlEventSetCreate"}, &set) != 0) return;
  bool registered = false;
  for (const nvml::Device device : devices) {
    registered |=
        nvml.Try<nvml::RegisterEvents>({"nvmlDeviceRegisterEvents"}, device, nvml::kEventXid, set) == 0;
  }
  nvml::EventData event = {};
  if (registered && nvml.Try<nvml::EventSetWait>({"nvmlEventSetWait_v2"}, set, &event, kListenMs) == 0 &&
      event.type == nvml::kEventXid) {
    const auto found = std::find(devices.begin(), devices.end(), event.device);
    if (found != devices.end()) {
      nvml.report().Put(fmt::format("device.{}.xid", found - devices.begin()),
                        std::optional<uint64_t>(event.data));
    }
  }
  nvml.Try<nvml::EventSetFree>({"nvmlEventSetFree"}, set);
}

void AskSystem(Nvml& nvml) {
  char driver[kTextBytes + 1] = {}, version[kTextBytes + 1] = {};
  int cuda = 0;
  NvmlFacts facts;
  if (nvml.Try<nvml::Text>({"nvmlSystemGetDriverVersion"}, driver, kTextBytes) == 0)
    facts.driver_version = driver;
  if (nvml.Try<nvml::Text>({"nvmlSystemGetNVMLVersion"}, version, kTextBytes) == 0)
    facts.nvml_version = version;
  if (nvml.Try<nvml::SystemNumber>({"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
                                   &cuda) == 0) {
    facts.cuda_version = cuda;
  }
  PutFields(nvml.report(), "", facts);
}

void AskLibrary(const ProbeOptions& options, Report& report) {
  report.Step(std::string("opening ") + kLibrary);
  const DriverLibrary library(kLibrary, options.library_folder);
  if (!library.ok()) {
    report.Put("library_error", library.error());
    return;
  }
  Nvml nvml(library, report);
  if (!nvml.Must<nvml::Init>("", {"nvmlInit_v2", "nvmlInit"})) return;
  AskSystem(nvml);
  report.Put("library", library.path());
  unsigned count = 0;
  if (!nvml.Must<nvml::DeviceCount>("", {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &count)) return;
  report.Put("device_count", std::optional<uint64_t>(count));
  std::vector<nvml::Device> devices;
  for (unsigned i = 0; i < std::min<uint64_t>(count, kMostDevices); ++i) {
    const std::string prefix = fmt::format("device.{}.", i);
    nvml::Device device = nullptr;
    if (!nvml.Must<nvml::DeviceByIndex>(
            prefix, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}, i, &device)) {
      continue;
    }
    devices.resize(i + 1);
    devices[i] = device;
    DeviceAsker asker(nvml, device, prefix);
    NvmlDevice facts;
    asker.Identity(&facts);
    asker.Memory(&facts);
    asker.Load(&facts);
    DropImplausible(&facts);
    PutFields(report, prefix, facts);
    asker.Processes();
  }
  AskEvents(nvml, devices);
  nvml.Try<nvml::Init>({"nvmlShutdown"});
}

}  // namespace

NvmlFacts ProbeNvml(const ProbeOptions& options) {
  NvmlFacts facts;
  Fields fields;
  facts.run = RunInChild([&](Report& report) { AskLibrary(options, report); }, options.deadline, &fields);
  GetFields(fields, "", &facts);
  GetFields(fields, "failed.", &facts.failed);
  for (uint64_t i = 0; i < std::min(facts.device_count.value_or(0), kMostDevices); ++i) {
    const std::string prefix = fmt::format("device.{}.", i);
    NvmlDevice device;
    const bool known = GetFields(fields, prefix, &device);
    if (!GetFields(fields, prefix + "failed.", &device.failed) && !known) break;
    GpuProcess process;
    for (size_t p = 0; GetFields(fields, fmt::format("{}process.{}.", prefix, p), &process); ++p) {
      device.processes.push_back(process);
      process = {};
    }
    facts.devices.push_back(std::move(device));
  }
  return facts;
}

}  // namespace spillway::device
