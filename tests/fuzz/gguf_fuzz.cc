// libFuzzer entry: the parser on arbitrary bytes, then everything it offers. No file system.
#include "engine/gguf/parse.h"
#include "tests/fuzz/gguf_probe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto parsed = spillway::ParseGguf("fuzz", bytes);
  if (parsed.ok()) spillway::test::ProbeGguf(parsed->metadata, parsed->tensors);
  return 0;
}
