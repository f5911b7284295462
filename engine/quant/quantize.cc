// Reference quantizers: each finds a block's range, stores the scale as the format does, and rounds the
// elements against the scale as stored, so that the error of the scale is not added twice.
#include "engine/quant/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/base/half.h"

namespace spillway {
namespace {

void PutU16(std::byte* out, uint16_t value) {
  out[0] = static_cast<std::byte>(value & 0xff);
  out[1] = static_cast<std::byte>(value >> 8);
}

// Stores `value` as f16 and returns what a reader will see.
float PutHalf(std::byte* out, float value) {
  const uint16_t half = F32ToF16(value);
  PutU16(out, half);
  return F16ToF32(half);
}

float Inverse(float value) { return value == 0.0f ? 0.0f : 1.0f / value; }

int RoundClamped(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::lrintf(std::clamp(value, -1024.0f, 1024.0f))), low, high);
}

// The value of largest magnitude, with its sign.
float SignedExtreme(const float* in, int count) {
  float extreme = 0.0f;
  for (int i = 0; i < count; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  return extreme;
}

void QuantizeF32(const float* in, std::byte* out, uint64_t elements) {
  if (elements != 0) std::memcpy(out, in, elements * sizeof(float));
}

void QuantizeF16(const float* in, std::byte* out, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) PutU16(out + 2 * i, F32ToF16(in[i]));
}

void QuantizeBf16(const float* in, std::byte* out, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) PutU16(out + 2 * i, F32ToBf16(in[i]));
}

void QuantizeQ4_0(const float* in, std::byte* out, uint64_t elements) {
  for (const float* end = in + elements; in != end; in += 32, out += 18) {
    // The extreme value gets -8, the one step that has no positive counterpart.
    const float inverse = Inverse(PutHalf(out, SignedExtreme(in, 32) / -8.0f));
    for (int j = 0; j < 16; ++j) {
      const int low = RoundClamped(in[j] * inverse, -8, 7) + 8;
      const int high = RoundClamped(in[j + 16] * inverse, -8, 7) + 8;
      out[2 + j] = static_cast<std::byte>(low | high << 4);
    }
  }
}

void QuantizeQ4_1(const float* in, std::byte* out, uint64_t elements) {
  for (const float* end = in + elements; in != end; in += 32, out += 20) {
    const auto [min, max] = std::minmax_element(in, in + 32);
    const float inverse = Inverse(PutHalf(out, (*max - *min) / 15.0f));
    const float base = PutHalf(out + 2, *min);
    for (int j = 0; j < 16; ++j) {
      const int low = RoundClamped((in[j] - base) * inverse, 0, 15);
      const int high = RoundClamped((in[j + 16] - base) * inverse, 0, 15);
      out[4 + j] = static_cast<std::byte>(low | high << 4);
    }
  }
}

void QuantizeQ8_0(const float* in, std::byte* out, uint64_t elements) {
  for (const float* end = in + elements; in != end; in += 32, out += 34) {
    const float inverse = Inverse(PutHalf(out, std::fabs(SignedExtreme(in, 32)) / 127.0f));
    for (int j = 0; j < 32; ++j)
      out[2 + j] = static_cast<std::byte>(RoundClamped(in[j] * inverse, -127, 127));
  }
}

// Packs eight 6-bit scales and minima into 12 bytes (the inverse of the rule in dequantize.cc).
void PackScaleMins(const std::array<int, 8>& scales, const std::array<int, 8>& mins, std::byte* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = static_cast<std::byte>(scales[j] | (scales[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<std::byte>(mins[j] | (mins[j + 4] >> 4) << 6);
    out[j + 8] = static_cast<std::byte>((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
  }
}

void QuantizeQ4_K(const float* in, std::byte* out, uint64_t elements) {
  for (const float* end = in + elements; in != end; in += 256, out += 144) {
    std::array<float, 8> steps;
    std::array<float, 8> offsets;  // -minimum of the group; a minimum above zero is stored as zero
    for (int g = 0; g < 8; ++g) {
      const auto [min, max] = std::minmax_element(in + 32 * g, in + 32 * g + 32);
      offsets[g] = -std::min(*min, 0.0f);
      steps[g] = std::max(*max + offsets[g], 0.0f) / 15.0f;
    }
    const float d = PutHalf(out, *std::max_element(steps.begin(), steps.end()) / 63.0f);
    const float dmin = PutHalf(out + 2, *std::max_element(offsets.begin(), offsets.end()) / 63.0f);
    std::array<int, 8> scales;
    std::array<int, 8> mins;
    for (int g = 0; g < 8; ++g) {
      scales[g] = RoundClamped(steps[g] * Inverse(d), 0, 63);
      mins[g] = RoundClamped(offsets[g] * Inverse(dmin), 0, 63);
    }
    PackScaleMins(scales, mins, out + 4);
    std::fill(out + 16, out + 144, std::byte{0});
    for (int g = 0; g < 8; ++g) {
      const float inverse = Inverse(d * static_cast<float>(scales[g]));
      const float offset = dmin * static_cast<float>(mins[g]);
      for (int l = 0; l < 32; ++l) {
        const int q = RoundClamped((in[32 * g + l] + offset) * inverse, 0, 15);
        out[16 + 32 * (g / 2) + l] |= static_cast<std::byte>(q << (4 * (g % 2)));
      }
    }
  }
}

void QuantizeQ6_K(const float* in, std::byte* out, uint64_t elements) {
  for (const float* end = in + elements; in != end; in += 256, out += 210) {
    std::array<float, 16> steps;
    for (int g = 0; g < 16; ++g) steps[g] = SignedExtreme(in + 16 * g, 16) / -32.0f;
    const float d = PutHalf(out + 208, SignedExtreme(steps.data(), 16) / -128.0f);
    std::fill(out, out + 192, std::byte{0});
    for (int g = 0; g < 16; ++g) {
      const int scale = RoundClamped(steps[g] * Inverse(d), -128, 127);
      out[192 + g] = static_cast<std::byte>(scale);
      const float inverse = Inverse(d * static_cast<float>(scale));
      const int r = g / 2;  // run of 32 elements
      for (int i = 0; i < 16; ++i) {
        const int l = 16 * (g % 2) + i;
        const int q = RoundClamped(in[16 * g + i] * inverse, -32, 31) + 32;
        out[64 * (r / 4) + 32 * (r % 2) + l] |= static_cast<std::byte>((q & 15) << (4 * (r % 4 / 2)));
        out[128 + 32 * (r / 4) + l] |= static_cast<std::byte>((q >> 4) << (2 * (r % 4)));
      }
    }
  }
}

constexpr std::array<QuantizerInfo, 8> kQuantizers = {{
    {TensorType::kF32, QuantizeF32},
    {TensorType::kF16, QuantizeF16},
    {TensorType::kQ4_0, QuantizeQ4_0},
    {TensorType::kQ4_1, QuantizeQ4_1},
    {TensorType::kQ8_0, QuantizeQ8_0},
    {TensorType::kQ4_K, QuantizeQ4_K},
    {TensorType::kQ6_K, QuantizeQ6_K},
    {TensorType::kBF16, QuantizeBf16},
}};

}  // namespace

const QuantizerInfo* FindQuantizer(TensorType type) {
  for (const QuantizerInfo& quantizer : kQuantizers) {
    if (quantizer.type == type) return &quantizer;
  }
  return nullptr;
}

std::span<const QuantizerInfo> AllQuantizers() { return kQuantizers; }

}  // namespace spillway
