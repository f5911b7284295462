// Whether the machine has an NVIDIA device and a loaded driver, from files alone. No verdicts, no driver
// library.
#pragma once

#include <string>
#include <vector>

#include "device/files.h"

namespace spillway::device {

struct PciDisplay {
  std::string address;  // "0000:01:00.0"
  std::string device;   // "0x2204"
};

struct NvidiaFacts {
  bool driver_loaded = false;        // /proc/driver/nvidia/version
  std::string driver_version;        // "535.183.01", empty when not stated
  std::vector<PciDisplay> displays;  // PCI display class 0x03, vendor 0x10de
  bool present() const { return driver_loaded || !displays.empty(); }
};

NvidiaFacts ReadNvidia(const Root& root);

}  // namespace spillway::device
