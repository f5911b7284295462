// A promise the reader broke is our own bug, hence CHECKs.
#include "tests/fuzz/gguf_probe.h"

#include "engine/base/status.h"
#include "engine/gguf/parse.h"

namespace spillway::test {

void ProbeGguf(const std::map<std::string, GgufValue, std::less<>>& metadata,
               std::span<const GgufTensor> tensors) {
  for (const auto& [key, value] : metadata) SPILLWAY_CHECK(!DescribeGgufValue(value).empty());
  for (const GgufTensor& tensor : tensors) {
    SPILLWAY_CHECK(tensor.bytes > 0 && tensor.data.size() == tensor.bytes);
    SPILLWAY_CHECK(FormatBytes(tensor.type, tensor.dims[0], tensor.Rows()) == tensor.bytes);
    volatile std::byte touched = tensor.data.front();
    touched = tensor.data.back();
    static_cast<void>(touched);
    const FormatInfo& format = FormatOf(tensor.type);
    std::vector<float> block(format.block_elements);
    format.dequantize(tensor.data.data(), block.data(), block.size());
  }
}

}  // namespace spillway::test
