// Seeded test data that is the same on every machine (Philox, no standard distributions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/quant/formats.h"

namespace spillway::test {

// Uniform in [low, high).
std::vector<float> RandomFloats(size_t count, uint64_t seed, float low = -1.0f, float high = 1.0f);
std::vector<uint8_t> RandomBytes(size_t count, uint64_t seed);

// Valid blocks of any format: random bytes with scales of moderate size, so that all dequantized values are
// finite. `elements` is a multiple of the format's block_elements.
std::vector<std::byte> RandomBlocks(TensorType type, uint64_t elements, uint64_t seed);

// As RandomBlocks with the same seed, but every byte that is not part of such a scale is `fill`. Not for
// float formats.
std::vector<std::byte> FilledBlocks(TensorType type, uint64_t elements, uint64_t seed, uint8_t fill);

std::vector<float> Dequantize(TensorType type, const std::vector<std::byte>& blocks);

}  // namespace spillway::test
