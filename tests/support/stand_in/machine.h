// A machine made up for a test: files under a root, and the stand-ins of the driver's libraries with their
// scenario. Sets SPILLWAY_STAND_IN_SCENARIO while it lives.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "device/gpu.h"
#include "tests/support/files.h"

namespace spillway::stand_in {

class Machine {
 public:
  Machine() {
    setenv("SPILLWAY_STAND_IN_SCENARIO", folder_.File("scenario").c_str(), 1);
    Put("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun May 12 19:39:15 UTC 2024\n");
    Put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    Put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    for (const char* node : {"nvidiactl", "nvidia-uvm", "nvidia0"}) Put(std::string("/dev/") + node, "");
  }
  ~Machine() { unsetenv("SPILLWAY_STAND_IN_SCENARIO"); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(At(path)).parent_path());
    test::WriteFile(At(path), text);
  }
  void Remove(const std::string& path) { std::filesystem::remove_all(At(path)); }
  void Says(const std::string& scenario) { test::WriteFile(folder_.File("scenario"), scenario); }
  std::string At(const std::string& path) const { return folder_.File("root") + path; }
  std::string File(const std::string& name) const { return folder_.File(name); }

  // `libraries`: the folder of the stand-ins.
  device::GpuOptions Options(const std::string& libraries) const {
    device::GpuOptions options;
    options.root = device::Root(folder_.File("root"));
    options.probe.library_folder = libraries;
    return options;
  }

 private:
  test::TempDir folder_;
};

}  // namespace spillway::stand_in
