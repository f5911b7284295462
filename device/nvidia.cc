// Reads PCI and driver files; see the header.
#include "device/nvidia.h"

#include <cctype>
#include <sstream>

namespace spillway::device {
namespace {

constexpr std::string_view kPciFolder = "/sys/bus/pci/devices";

// The first word of digits and dots in the "NVRM version:" line.
std::string VersionIn(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;) {
    const bool digits = word.find_first_not_of("0123456789.") == std::string::npos;
    if (digits && word.find('.') != std::string::npos) return word;
  }
  return "";
}

}  // namespace

NvidiaFacts ReadNvidia(const Root& root) {
  NvidiaFacts facts;
  if (const auto version = ReadFile(root, "/proc/driver/nvidia/version")) {
    facts.driver_loaded = true;
    facts.driver_version = VersionIn(*version);
  }
  for (const std::string& address : ListFolder(root, kPciFolder)) {
    const std::string folder = std::string(kPciFolder) + "/" + address;
    const auto vendor = ReadFile(root, folder + "/vendor");
    const auto display_class = ReadFile(root, folder + "/class");
    if (!vendor || !display_class) continue;
    if (Trim(*vendor) != "0x10de" || Trim(*display_class).substr(0, 4) != "0x03") continue;
    const auto device = ReadFile(root, folder + "/device");
    facts.displays.push_back({address, device ? std::string(Trim(*device)) : ""});
  }
  return facts;
}

}  // namespace spillway::device
