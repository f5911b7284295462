// Exit codes of every spillway command and the one way a command reports an error: one line on stderr.
#pragma once

#include <absl/status/status.h>

#include <string_view>

namespace spillway::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,      // a file, a process or a request went wrong
  kUsage = 2,       // the command line, or an argument that does not fit the model
  kRefused = 3,     // by the plan or a policy
  kNamedCause = 4,  // a cause of the cause table, named in the message
};

// Prints "spillway: MESSAGE" and returns the code.
int Fail(ExitCode code, std::string_view message);

// InvalidArgument and OutOfRange of an argument check → kUsage; everything else → kFailed.
int FailUsage(const absl::Status& status);
int FailWith(const absl::Status& status);  // kFailed

}  // namespace spillway::cli
