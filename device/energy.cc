// /sys/class/powercap/intel-rapl:N is a package (AMD's too); its parts are named intel-rapl:N:M.
#include "device/energy.h"

#include <algorithm>

namespace spillway::device {
namespace {

constexpr char kFolder[] = "/sys/class/powercap";

std::optional<uint64_t> ReadNumber(const Root& root, const std::string& path) {
  const auto text = ReadFile(root, path);
  return text ? ParseUnsigned(Trim(*text)) : std::nullopt;
}

}  // namespace

EnergyMeter::EnergyMeter(const Root& root) : root_(root) {
  for (const std::string& name : ListFolder(root, kFolder)) {
    if (name.rfind("intel-rapl:", 0) != 0 || std::count(name.begin(), name.end(), ':') != 1) continue;
    Package package;
    package.folder = std::string(kFolder) + "/" + name;
    const auto range = ReadNumber(root, package.folder + "/max_energy_range_uj");
    const auto now = ReadNumber(root, package.folder + "/energy_uj");
    if (!range || !now) {
      packages_.clear();
      return;
    }
    package.range = *range;
    package.last = *now;
    packages_.push_back(std::move(package));
  }
}

std::optional<double> EnergyMeter::Joules() {
  if (packages_.empty()) return std::nullopt;
  for (Package& package : packages_) {
    const auto now = ReadNumber(root_, package.folder + "/energy_uj");
    if (!now) return std::nullopt;
    const uint64_t used = *now >= package.last ? *now - package.last : package.range - package.last + *now;
    joules_ += 1e-6 * static_cast<double>(used);
    package.last = *now;
  }
  return joules_;
}

}  // namespace spillway::device
