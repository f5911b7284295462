// Reference quantizers from float32, for making test and bench models. Plain rounding to the nearest step of
// each block's own range: no importance weights and no search, so a file made here is valid but not the best
// possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/quant/formats.h"

namespace spillway {

struct QuantizerInfo {
  TensorType type;
  // Quantizes `elements` (a multiple of the format's block_elements) finite values from `in` into whole
  // blocks.
  void (*quantize)(const float* in, std::byte* out, uint64_t elements);
};

// nullptr for a format that has no quantizer here; F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K and Q6_K have one.
const QuantizerInfo* FindQuantizer(TensorType type);
std::span<const QuantizerInfo> AllQuantizers();

}  // namespace spillway
