// The one place that prints a command's error.
#include "cli/exit_code.h"

#include <fmt/core.h>

#include <cstdio>

#include "engine/base/status.h"

namespace spillway::cli {

int Fail(ExitCode code, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "spillway: {}\n", message);
  return code;
}

int FailUsage(const absl::Status& status) {
  const bool usage = absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
  return Fail(usage ? kUsage : kFailed, MessageOf(status));
}

int FailWith(const absl::Status& status) { return Fail(kFailed, MessageOf(status)); }

}  // namespace spillway::cli
