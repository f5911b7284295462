// Builds the kernel table of one ISA level from the bodies. Included by kernels_<isa>.cc only.
#pragma once

#include "engine/cpu/attention_body.h"
#include "engine/cpu/codes.h"
#include "engine/cpu/matmul_body.h"
#include "engine/cpu/recurrent_body.h"
#include "engine/cpu/vector_body.h"

namespace spillway::cpu {

template <class V>
struct KernelTable {
  using Vector = VectorBody<V>;
  using Matmul = MatmulBody<V>;

  template <Packing kPacking, class Record>
  static void SetQuantized(Kernels* kernels) {
    constexpr auto kIndex = static_cast<size_t>(kPacking);
    static_assert(Record::kColumns == kRecordShapes[kIndex].columns);
    static_assert(Record::kBytes == kRecordShapes[kIndex].bytes);
    kernels->matmul[kIndex] = Matmul::template Quantized<Record>;
  }

  static Kernels Make(Isa isa) {
    Kernels kernels{};
    kernels.isa = isa;
    kernels.rms_norm = Vector::RmsNorm;
    kernels.quantize = Vector::Quantize;
    kernels.silu_mul = Vector::SiluMul;
    kernels.gelu_mul = Vector::GeluMul;
    kernels.swiglu_clamped_mul = Vector::SwigluClampedMul;
    kernels.softcap = Vector::Softcap;
    kernels.attend = AttentionBody<V>::Attend;
    kernels.store_key = AttentionBody<V>::StoreKey;
    kernels.store_value = AttentionBody<V>::StoreValue;
    kernels.sigmoid_mul = Vector::SigmoidMul;
    kernels.convolve = RecurrentBody<V>::Convolve;
    kernels.unit = RecurrentBody<V>::Unit;
    kernels.delta_rule = RecurrentBody<V>::DeltaRule;
    kernels.matmul[static_cast<size_t>(Packing::kF32)] = Matmul::template Float<FloatF32<V>>;
    kernels.matmul[static_cast<size_t>(Packing::kF16)] = Matmul::template Float<FloatF16<V>>;
    kernels.matmul[static_cast<size_t>(Packing::kBF16)] = Matmul::template Float<FloatBf16<V>>;
    SetQuantized<Packing::kQ4_0, Record32<V, UnsignedCodes<4, 8>>>(&kernels);
    SetQuantized<Packing::kQ4_1, Record32<V, UnsignedCodes<4>, true>>(&kernels);
    SetQuantized<Packing::kQ5_0, Record32<V, UnsignedCodes<5, 16>>>(&kernels);
    SetQuantized<Packing::kQ5_1, Record32<V, UnsignedCodes<5>, true>>(&kernels);
    SetQuantized<Packing::kQ8_0, Record32<V, SignedBytes>>(&kernels);
    SetQuantized<Packing::kIQ4_NL, Record32<V, Iq4Codes>>(&kernels);
    SetQuantized<Packing::kMXFP4, Record32<V, Mxfp4Codes, false, FloatBf16<V>>>(&kernels);
    SetQuantized<Packing::kQ2_K, SubScaled16<V, UnsignedCodes<2>, true>>(&kernels);
    SetQuantized<Packing::kQ3_K, SubScaled16<V, UnsignedCodes<3, 4>, false>>(&kernels);
    SetQuantized<Packing::kQ4_K, SubScaled32<V, UnsignedCodes<4>, true>>(&kernels);
    SetQuantized<Packing::kQ5_K, SubScaled32<V, UnsignedCodes<5>, true>>(&kernels);
    SetQuantized<Packing::kQ6_K, SubScaled16<V, UnsignedCodes<6, 32>, false>>(&kernels);
    SetQuantized<Packing::kIQ4_XS, SubScaled32<V, Iq4Codes, false>>(&kernels);
    return kernels;
  }
};

}  // namespace spillway::cpu
