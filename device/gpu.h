// Everything that can be known of the machine's NVIDIA devices without running anything on them: files,
// device nodes, environment, the driver's two libraries. No verdicts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/cuda_probe.h"
#include "device/files.h"
#include "device/nvidia.h"
#include "device/nvml_probe.h"

namespace spillway::device {

struct DeviceNode {
  std::string path;  // "/dev/nvidia-uvm"
  bool exists = false;
  int open_error = 0;  // errno of opening it to read and write
};

struct GpuFacts {
  NvidiaFacts files;
  std::vector<DeviceNode> nodes;  // the control nodes always, nvidiaN where there are
  std::optional<std::string> cuda_visible_devices, nvidia_visible_devices;
  double suspended_seconds = 0;  // how long this machine slept since it started
  CudaFacts cuda;
  NvmlFacts nvml;
  // Whether anything speaks of an NVIDIA device in this machine.
  bool present() const;
};

struct GpuOptions {
  Root root;
  ProbeOptions probe;
};

// SPILLWAY_SYSTEM_ROOT and SPILLWAY_DRIVER_LIBRARIES (an absolute folder with libcuda.so.1 and
// libnvidia-ml.so.1, instead of the loader's search).
GpuOptions GpuOptionsFromEnvironment();

// Takes up to two deadlines, since each library has its own child.
GpuFacts ReadGpu(const GpuOptions& options);

}  // namespace spillway::device
