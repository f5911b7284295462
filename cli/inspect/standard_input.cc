// stdio on standard input and output; no locale, no line ends.
#include "cli/inspect/standard_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

constexpr size_t kMaxInputBytes = size_t{256} << 20;

}  // namespace

absl::StatusOr<std::string> ReadStandardInput() {
  std::string text;
  std::vector<char> block(64 * 1024);
  while (const size_t count = std::fread(block.data(), 1, block.size(), stdin)) {
    if (text.size() + count > kMaxInputBytes)
      return ResourceExhausted("standard input is longer than {} bytes", kMaxInputBytes);
    text.append(block.data(), count);
  }
  if (std::ferror(stdin)) return Unavailable("standard input: {}", std::strerror(errno));
  return text;
}

absl::Status WriteStandardOutput(std::string_view bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
  if (std::fflush(stdout) != 0 || !written) return Unavailable("standard output: {}", std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace spillway::cli
