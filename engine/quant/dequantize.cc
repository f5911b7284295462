// Reference dequantizers: plain scalar code that reads the block layouts byte by byte, so that no alignment
// or padding is assumed. Speed is not a goal here.
#include "engine/quant/dequantize.h"

#include <cmath>
#include <cstring>

#include "engine/base/half.h"
#include "engine/quant/block_fields.h"

namespace spillway::dequantize {
namespace {

// Byte offsets below are those of ggml's block structures.
uint8_t U8(const std::byte* p) { return static_cast<uint8_t>(*p); }
int8_t I8(const std::byte* p) { return static_cast<int8_t>(*p); }
uint16_t U16(const std::byte* p) { return static_cast<uint16_t>(U8(p) | U8(p + 1) << 8); }
uint32_t U32(const std::byte* p) { return U16(p) | static_cast<uint32_t>(U16(p + 2)) << 16; }
float Half(const std::byte* p) { return F16ToF32(U16(p)); }

}  // namespace

void F32(const std::byte* in, float* out, uint64_t elements) {
  if (elements != 0) std::memcpy(out, in, elements * sizeof(float));
}

void F16(const std::byte* in, float* out, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) out[i] = Half(in + 2 * i);
}

void BF16(const std::byte* in, float* out, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) out[i] = Bf16ToF32(U16(in + 2 * i));
}

void Q4_0(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 18, out += 32) {
    const float d = Half(in);
    for (int j = 0; j < 16; ++j) {
      const int q = U8(in + 2 + j);
      out[j] = d * static_cast<float>((q & 15) - 8);
      out[j + 16] = d * static_cast<float>((q >> 4) - 8);
    }
  }
}

void Q4_1(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 20, out += 32) {
    const float d = Half(in);
    const float m = Half(in + 2);
    for (int j = 0; j < 16; ++j) {
      const int q = U8(in + 4 + j);
      out[j] = d * static_cast<float>(q & 15) + m;
      out[j + 16] = d * static_cast<float>(q >> 4) + m;
    }
  }
}

void Q5_0(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 22, out += 32) {
    const float d = Half(in);
    const uint32_t high = U32(in + 2);
    for (int j = 0; j < 16; ++j) {
      const int q = U8(in + 6 + j);
      const int low_bit = static_cast<int>(high >> j & 1u);
      const int high_bit = static_cast<int>(high >> (j + 16) & 1u);
      out[j] = d * static_cast<float>(((q & 15) | low_bit << 4) - 16);
      out[j + 16] = d * static_cast<float>(((q >> 4) | high_bit << 4) - 16);
    }
  }
}

void Q5_1(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 24, out += 32) {
    const float d = Half(in);
    const float m = Half(in + 2);
    const uint32_t high = U32(in + 4);
    for (int j = 0; j < 16; ++j) {
      const int q = U8(in + 8 + j);
      const int low_bit = static_cast<int>(high >> j & 1u);
      const int high_bit = static_cast<int>(high >> (j + 16) & 1u);
      out[j] = d * static_cast<float>((q & 15) | low_bit << 4) + m;
      out[j + 16] = d * static_cast<float>((q >> 4) | high_bit << 4) + m;
    }
  }
}

void Q8_0(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 34, out += 32) {
    const float d = Half(in);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(I8(in + 2 + j));
  }
}

void Q2_K(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 84, out += 256) {
    const float d = Half(in + 80);
    const float dmin = Half(in + 82);
    // Group g of 16: 128 elements share 32 bytes, 2 bits each, in runs of 32 elements.
    for (int g = 0; g < 16; ++g) {
      const int packed = U8(in + g);
      const float scale = d * static_cast<float>(packed & 15);
      const float min = dmin * static_cast<float>(packed >> 4);
      const std::byte* quants = in + 16 + 32 * (g / 8) + 16 * (g % 2);
      const int shift = 2 * (g % 8 / 2);
      for (int l = 0; l < 16; ++l) {
        out[16 * g + l] = scale * static_cast<float>(U8(quants + l) >> shift & 3) - min;
      }
    }
  }
}

void Q3_K(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 110, out += 256) {
    const float d = Half(in + 108);
    for (int g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(Q3Scale(in + 96, g));
      const std::byte* high = in + 16 * (g % 2);
      const std::byte* quants = in + 32 + 32 * (g / 8) + 16 * (g % 2);
      const int shift = 2 * (g % 8 / 2);
      for (int l = 0; l < 16; ++l) {
        const int q = (U8(quants + l) >> shift & 3) - ((U8(high + l) >> (g / 2) & 1) != 0 ? 0 : 4);
        out[16 * g + l] = scale * static_cast<float>(q);
      }
    }
  }
}

void Q4_K(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 144, out += 256) {
    const float d = Half(in);
    const float dmin = Half(in + 2);
    for (int g = 0; g < 8; ++g) {
      const ScaleMin packed = PackedScaleMin(in + 4, g);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = dmin * static_cast<float>(packed.min);
      const std::byte* quants = in + 16 + 32 * (g / 2);
      const int shift = 4 * (g % 2);
      for (int l = 0; l < 32; ++l) {
        out[32 * g + l] = scale * static_cast<float>(U8(quants + l) >> shift & 15) - min;
      }
    }
  }
}

void Q5_K(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 176, out += 256) {
    const float d = Half(in);
    const float dmin = Half(in + 2);
    for (int g = 0; g < 8; ++g) {
      const ScaleMin packed = PackedScaleMin(in + 4, g);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = dmin * static_cast<float>(packed.min);
      const std::byte* high = in + 16;
      const std::byte* quants = in + 48 + 32 * (g / 2);
      const int shift = 4 * (g % 2);
      for (int l = 0; l < 32; ++l) {
        const int q = (U8(quants + l) >> shift & 15) | (U8(high + l) >> g & 1) << 4;
        out[32 * g + l] = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void Q6_K(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 210, out += 256) {
    const float d = Half(in + 208);
    // Run r of 32 elements: four runs share 64 bytes of low nibbles and 32 bytes of high pairs.
    for (int r = 0; r < 8; ++r) {
      const std::byte* low = in + 64 * (r / 4) + 32 * (r % 2);
      const std::byte* high = in + 128 + 32 * (r / 4);
      const int low_shift = 4 * (r % 4 / 2);
      const int high_shift = 2 * (r % 4);
      for (int l = 0; l < 32; ++l) {
        const float scale = d * static_cast<float>(I8(in + 192 + 2 * r + l / 16));
        const int q = (U8(low + l) >> low_shift & 15) | (U8(high + l) >> high_shift & 3) << 4;
        out[32 * r + l] = scale * static_cast<float>(q - 32);
      }
    }
  }
}

void IQ4_NL(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 18, out += 32) {
    const float d = Half(in);
    for (int j = 0; j < 16; ++j) {
      const unsigned q = U8(in + 2 + j);
      out[j] = d * static_cast<float>(kIq4Values[q & 15u]);
      out[j + 16] = d * static_cast<float>(kIq4Values[q >> 4]);
    }
  }
}

void IQ4_XS(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 136, out += 256) {
    const float d = Half(in);
    for (int g = 0; g < 8; ++g) {
      const float scale = d * static_cast<float>(Iq4XsScale(in, g));
      for (int j = 0; j < 16; ++j) {
        const unsigned q = U8(in + 8 + 16 * g + j);
        out[32 * g + j] = scale * static_cast<float>(kIq4Values[q & 15u]);
        out[32 * g + j + 16] = scale * static_cast<float>(kIq4Values[q >> 4]);
      }
    }
  }
}

void MXFP4(const std::byte* in, float* out, uint64_t elements) {
  for (const float* end = out + elements; out != end; in += 17, out += 32) {
    const float d = std::ldexp(1.0f, U8(in) - 128);
    for (int j = 0; j < 16; ++j) {
      const unsigned q = U8(in + 1 + j);
      out[j] = d * static_cast<float>(kMxfp4Values[q & 15u]);
      out[j + 16] = d * static_cast<float>(kMxfp4Values[q >> 4]);
    }
  }
}

}  // namespace spillway::dequantize
