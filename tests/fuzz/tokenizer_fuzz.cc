// libFuzzer entry: vocabularies and texts of arbitrary bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/tokenizer_probe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!spillway::test::ProbeTokenizer({reinterpret_cast<const char*>(data), size}).empty()) std::abort();
  return 0;
}
