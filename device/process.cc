// Reads /proc/PID/stat (proc(5)): the command in parentheses may hold anything, so fields count from its last
// ")".
#include "device/process.h"

#include <unistd.h>

#include <sstream>
#include <vector>

namespace spillway::device {
namespace {

// Indices after the command: field 3 of proc(5) is index 0.
constexpr size_t kMajorFaults = 9, kUserTicks = 11, kSystemTicks = 12, kStartTicks = 19, kVirtualBytes = 20,
                 kResidentPages = 21;

std::vector<std::string> FieldsAfterCommand(const std::string& stat) {
  const size_t close = stat.rfind(')');
  if (close == std::string::npos) return {};
  std::istringstream words(stat.substr(close + 1));
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  return fields;
}

uint64_t BootUnixSeconds(const Root& root) {
  const auto stat = ReadFile(root, "/proc/stat");
  if (!stat) return 0;
  const size_t at = stat->find("\nbtime ");
  if (at == std::string::npos) return 0;
  return ParseUnsigned(std::string_view(*stat).substr(at + 7, stat->find('\n', at + 7) - at - 7)).value_or(0);
}

}  // namespace

ProcessFacts ReadProcess(const Root& root, const std::string& process) {
  ProcessFacts facts;
  const auto stat = ReadFile(root, "/proc/" + process + "/stat");
  if (!stat) return facts;
  const std::vector<std::string> fields = FieldsAfterCommand(*stat);
  if (fields.size() <= kResidentPages) return facts;
  const auto number = [&fields](size_t index) { return ParseUnsigned(fields[index]).value_or(0); };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  facts.known = true;
  facts.cpu_seconds = static_cast<double>(number(kUserTicks) + number(kSystemTicks)) / ticks;
  facts.major_faults = number(kMajorFaults);
  facts.virtual_bytes = number(kVirtualBytes);
  facts.resident_bytes = number(kResidentPages) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  facts.start_unix_seconds =
      static_cast<double>(BootUnixSeconds(root)) + static_cast<double>(number(kStartTicks)) / ticks;
  const size_t listed = ListFolder(root, "/proc/" + process + "/fd").size();
  // Looking into one's own folder opens a descriptor, which the list then holds too.
  facts.open_fds = process == "self" && listed > 0 ? listed - 1 : listed;
  return facts;
}

}  // namespace spillway::device
