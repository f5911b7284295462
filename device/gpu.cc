// See gpu.h.
#include "device/gpu.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace spillway::device {
namespace {

DeviceNode ReadNode(const Root& root, const std::string& path) {
  DeviceNode node;
  node.path = path;
  struct stat status;
  node.exists = stat(root.At(path).c_str(), &status) == 0;
  if (!node.exists) return node;
  const int descriptor = open(root.At(path).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    node.open_error = errno;
  } else {
    close(descriptor);
  }
  return node;
}

// "nvidia0", not "nvidia-modeset" or "nvidiactl".
bool IsDeviceNode(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.rfind(kPrefix, 0) == 0 &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

double ClockSeconds(clockid_t clock) {
  timespec time = {};
  return clock_gettime(clock, &time) == 0
             ? static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)
             : 0;
}

}  // namespace

bool GpuFacts::present() const {
  const bool node = std::any_of(nodes.begin(), nodes.end(), [](const DeviceNode& n) { return n.exists; });
  return files.present() || node || cuda.device_count.value_or(0) > 0 || nvml.device_count.value_or(0) > 0;
}

GpuOptions GpuOptionsFromEnvironment() {
  GpuOptions options;
  options.root = Root(Variable("SPILLWAY_SYSTEM_ROOT").value_or(""));
  options.probe.library_folder = Variable("SPILLWAY_DRIVER_LIBRARIES").value_or("");
  return options;
}

GpuFacts ReadGpu(const GpuOptions& options) {
  const Root& root = options.root;
  GpuFacts facts;
  facts.files = ReadNvidia(root);
  facts.cuda_visible_devices = Variable("CUDA_VISIBLE_DEVICES");
  facts.nvidia_visible_devices = Variable("NVIDIA_VISIBLE_DEVICES");
  facts.suspended_seconds = std::max(0.0, ClockSeconds(CLOCK_BOOTTIME) - ClockSeconds(CLOCK_MONOTONIC));
  facts.nvml = ProbeNvml(options.probe);
  facts.cuda = ProbeCuda(options.probe);
  // After the driver's library, which makes nodes that are missing.
  for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) facts.nodes.push_back(ReadNode(root, path));
  for (const std::string& name : ListFolder(root, "/dev")) {
    if (IsDeviceNode(name)) facts.nodes.push_back(ReadNode(root, "/dev/" + name));
  }
  for (NvmlDevice& device : facts.nvml.devices) {
    for (GpuProcess& process : device.processes) {
      const auto name = ReadFile(root, "/proc/" + std::to_string(process.pid.value_or(0)) + "/comm");
      if (name) process.name = Trim(*name);
    }
  }
  return facts;
}

}  // namespace spillway::device
