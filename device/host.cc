// Machine figures from /proc, limits from cgroup v2 or v1, walking up to the root since any parent may be
// tighter.
#include "device/host.h"

#include <algorithm>
#include <sstream>

namespace spillway::device {
namespace {

// cgroup v1 writes "no limit" as a huge number of pages.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

struct CgroupFiles {
  std::string mount;  // "/sys/fs/cgroup" or the v1 controller's folder
  std::string path;   // of this process below it
  const char* limit;
  const char* usage;
  const char* inactive_key;  // in memory.stat: page cache that can be dropped
};

struct MemoryLimit {
  uint64_t limit = 0, available = 0;
};

uint64_t KibField(const std::string& meminfo, std::string_view key) {
  const auto text = ColonField(meminfo, key);
  if (!text) return 0;
  return ParseUnsigned(std::string_view(*text).substr(0, text->find(' '))).value_or(0) * 1024;
}

// "0-3,8" -> 5
uint32_t CountList(const std::string& list) {
  uint32_t count = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const auto first = ParseUnsigned(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : ParseUnsigned(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first || *last > 1u << 20) return 0;
    count += static_cast<uint32_t>(*last - *first + 1);
  }
  return count;
}

// The value of "KEY value" in memory.stat.
uint64_t StatField(const std::string& stat, std::string_view key) {
  std::istringstream lines(stat);
  for (std::string name, value; lines >> name >> value;) {
    if (name == key) return ParseUnsigned(value).value_or(0);
  }
  return 0;
}

// Whether the comma-separated `names` hold `wanted`.
bool Holds(std::string_view names, std::string_view wanted) {
  while (!names.empty()) {
    const size_t comma = names.find(',');
    if (names.substr(0, comma) == wanted) return true;
    names = comma == std::string_view::npos ? std::string_view{} : names.substr(comma + 1);
  }
  return false;
}

// The path of this process for a v1 controller, or for v2 with an empty name.
std::string CgroupPath(const Root& root, std::string_view controller) {
  const auto file = ReadFile(root, "/proc/self/cgroup");
  if (!file) return "/";
  std::istringstream lines(*file);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (names == controller || (!controller.empty() && Holds(names, controller))) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

MemoryLimit ReadMemoryLimit(const Root& root, const CgroupFiles& files) {
  MemoryLimit tightest;
  std::string path = files.path == "/" ? "" : files.path;
  while (true) {
    const std::string folder = files.mount + path;
    const auto limit_text = ReadFile(root, folder + "/" + files.limit);
    const uint64_t limit = limit_text ? ParseUnsigned(*limit_text).value_or(0) : 0;  // "max" is no number
    if (limit != 0 && limit < kNoLimit) {
      const auto usage = ReadFile(root, folder + "/" + files.usage);
      const uint64_t used = usage ? ParseUnsigned(*usage).value_or(0) : 0;
      const auto stat = ReadFile(root, folder + "/memory.stat");
      const uint64_t reclaimable = stat ? std::min(used, StatField(*stat, files.inactive_key)) : 0;
      const uint64_t available = limit - std::min(limit, used - reclaimable);
      const bool first = tightest.limit == 0;
      tightest.limit = first ? limit : std::min(tightest.limit, limit);
      tightest.available = first ? available : std::min(tightest.available, available);
    }
    if (path.empty()) return tightest;
    path = Parent(path);
  }
}

double ReadCpuQuota(const Root& root, bool v2) {
  if (v2) {
    const auto text = ReadFile(root, "/sys/fs/cgroup" + CgroupPath(root, "") + "/cpu.max");
    std::istringstream words(text.value_or(""));
    double quota = 0, period = 0;
    return words >> quota >> period && period > 0 ? quota / period : 0;
  }
  const std::string folder = "/sys/fs/cgroup/cpu" + CgroupPath(root, "cpu");
  const auto quota = ParseUnsigned(ReadFile(root, folder + "/cpu.cfs_quota_us").value_or(""));
  const auto period = ParseUnsigned(ReadFile(root, folder + "/cpu.cfs_period_us").value_or(""));
  return quota && period && *period > 0 ? static_cast<double>(*quota) / static_cast<double>(*period) : 0;
}

}  // namespace

uint64_t HostFacts::TotalBytes() const {
  return cgroup_limit_bytes == 0 ? machine_total_bytes : std::min(machine_total_bytes, cgroup_limit_bytes);
}
uint64_t HostFacts::AvailableBytes() const {
  return cgroup_limit_bytes == 0 ? machine_available_bytes
                                 : std::min(machine_available_bytes, cgroup_available_bytes);
}

HostFacts ReadHost(const Root& root) {
  HostFacts facts;
  if (const auto cpuinfo = ReadFile(root, "/proc/cpuinfo")) {
    facts.cpu_name = ColonField(*cpuinfo, "model name").value_or("");
  }
  if (const auto status = ReadFile(root, "/proc/self/status")) {
    facts.cpus_allowed = CountList(ColonField(*status, "Cpus_allowed_list").value_or(""));
  }
  if (const auto meminfo = ReadFile(root, "/proc/meminfo")) {
    facts.machine_total_bytes = KibField(*meminfo, "MemTotal");
    facts.machine_available_bytes = KibField(*meminfo, "MemAvailable");
  }
  const bool v2 = Exists(root, "/sys/fs/cgroup/cgroup.controllers");
  const CgroupFiles files =
      v2 ? CgroupFiles{"/sys/fs/cgroup", CgroupPath(root, ""), "memory.max", "memory.current",
                       "inactive_file"}
         : CgroupFiles{"/sys/fs/cgroup/memory", CgroupPath(root, "memory"), "memory.limit_in_bytes",
                       "memory.usage_in_bytes", "total_inactive_file"};
  const MemoryLimit limit = ReadMemoryLimit(root, files);
  facts.cgroup_limit_bytes = limit.limit;
  facts.cgroup_available_bytes = limit.available;
  facts.cpu_quota = ReadCpuQuota(root, v2);
  return facts;
}

}  // namespace spillway::device
