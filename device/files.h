// The system's files under a root that tests replace: every path of /proc, /sys and /dev goes through it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::device {

class Root {
 public:
  explicit Root(std::string path = "") : path_(std::move(path)) {}
  std::string At(std::string_view absolute) const { return path_ + std::string(absolute); }

 private:
  std::string path_;  // without a final slash; empty = the real one
};

// At most 1 MiB; nullopt when the file is missing or unreadable.
std::optional<std::string> ReadFile(const Root& root, std::string_view absolute);
bool Exists(const Root& root, std::string_view absolute);
// Names in the folder, sorted; empty when it is missing.
std::vector<std::string> ListFolder(const Root& root, std::string_view absolute);

std::string_view Trim(std::string_view text);
std::optional<uint64_t> ParseUnsigned(std::string_view text);
// The text after "KEY" and its colon in a file of "KEY : value" lines (/proc/cpuinfo, /proc/meminfo, status).
std::optional<std::string> ColonField(std::string_view file, std::string_view key);

}  // namespace spillway::device
