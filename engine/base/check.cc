#include <cstdio>
#include <cstdlib>

#include "engine/base/status.h"

namespace spillway::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace spillway::internal
