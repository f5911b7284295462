// Reading the system's small text files, never failing louder than "not known".
#include "device/files.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace spillway::device {
namespace {
constexpr size_t kMaxFileBytes = size_t{1} << 20;
}

std::optional<std::string> ReadFile(const Root& root, std::string_view absolute) {
  std::ifstream in(root.At(absolute), std::ios::binary);
  if (!in) return std::nullopt;
  std::string text(4096, '\0');
  size_t size = 0;
  while (size < kMaxFileBytes) {
    if (size == text.size()) text.resize(std::min(kMaxFileBytes, text.size() * 2));
    in.read(text.data() + size, static_cast<std::streamsize>(text.size() - size));
    size += static_cast<size_t>(in.gcount());
    if (!in) break;
  }
  if (in.bad()) return std::nullopt;
  text.resize(size);
  return text;
}

bool Exists(const Root& root, std::string_view absolute) {
  return !ListFolder(root, absolute).empty() || std::ifstream(root.At(absolute)).good();
}

std::vector<std::string> ListFolder(const Root& root, std::string_view absolute) {
  std::vector<std::string> names;
  DIR* folder = opendir(root.At(absolute).c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<uint64_t> ParseUnsigned(std::string_view text) {
  text = Trim(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> ColonField(std::string_view file, std::string_view key) {
  while (!file.empty()) {
    const size_t end = file.find('\n');
    const std::string_view line = file.substr(0, end);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && Trim(line.substr(0, colon)) == key) {
      return std::string(Trim(line.substr(colon + 1)));
    }
    file = end == std::string_view::npos ? std::string_view{} : file.substr(end + 1);
  }
  return std::nullopt;
}

}  // namespace spillway::device
