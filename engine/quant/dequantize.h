// Reference dequantizers, one per weight format; the table in formats.cc is their only user.
// Each takes whole blocks and rounds in one fixed order: scale (and minimum) first, then the element.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::dequantize {

void F32(const std::byte* in, float* out, uint64_t elements);
void F16(const std::byte* in, float* out, uint64_t elements);
void BF16(const std::byte* in, float* out, uint64_t elements);
void Q4_0(const std::byte* in, float* out, uint64_t elements);
void Q4_1(const std::byte* in, float* out, uint64_t elements);
void Q5_0(const std::byte* in, float* out, uint64_t elements);
void Q5_1(const std::byte* in, float* out, uint64_t elements);
void Q8_0(const std::byte* in, float* out, uint64_t elements);
void Q2_K(const std::byte* in, float* out, uint64_t elements);
void Q3_K(const std::byte* in, float* out, uint64_t elements);
void Q4_K(const std::byte* in, float* out, uint64_t elements);
void Q5_K(const std::byte* in, float* out, uint64_t elements);
void Q6_K(const std::byte* in, float* out, uint64_t elements);
void IQ4_NL(const std::byte* in, float* out, uint64_t elements);
void IQ4_XS(const std::byte* in, float* out, uint64_t elements);
void MXFP4(const std::byte* in, float* out, uint64_t elements);

}  // namespace spillway::dequantize
