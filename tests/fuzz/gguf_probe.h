// Uses everything that a parsed GGUF file offers, so that a fuzzer sees more than the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf/reader.h"

namespace spillway::test {

// Describes every value, checks each tensor's arithmetic and reads both ends of its data. Aborts on a broken
// promise.
void ProbeGguf(const std::map<std::string, GgufValue, std::less<>>& metadata,
               std::span<const GgufTensor> tensors);

}  // namespace spillway::test
