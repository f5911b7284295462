// Whole standard input, byte for byte, and raw bytes to standard output.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace spillway::cli {

// ResourceExhausted above 256 MiB.
absl::StatusOr<std::string> ReadStandardInput();
absl::Status WriteStandardOutput(std::string_view bytes);

}  // namespace spillway::cli
