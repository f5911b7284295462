// libFuzzer entry: chat templates of arbitrary bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/template_probe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!spillway::test::ProbeTemplate({reinterpret_cast<const char*>(data), size}).empty()) std::abort();
  return 0;
}
