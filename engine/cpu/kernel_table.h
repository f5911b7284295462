// Builds the kernel table of one ISA level from the bodies. Included by kernels_<isa>.cc only.
#pragma once

#include "engine/cpu/matmul_body.h"
#include "engine/cpu/vector_body.h"

namespace spillway::cpu {

template <class V>
Kernels MakeKernels(Isa isa) {
  using Vector = VectorBody<V>;
  using Matmul = MatmulBody<V>;
  Kernels kernels{};
  kernels.isa = isa;
  kernels.rms_norm = Vector::RmsNorm;
  kernels.quantize = Vector::Quantize;
  kernels.silu_mul = Vector::SiluMul;
  kernels.gelu_mul = Vector::GeluMul;
  kernels.attend = Vector::Attend;
  kernels.store_kv = Vector::StoreKv;
  const auto set = [&](Packing packing, auto function) {
    kernels.matmul[static_cast<size_t>(packing)] = function;
  };
  set(Packing::kF32, Matmul::template Float<FloatF32<V>>);
  set(Packing::kF16, Matmul::template Float<FloatF16<V>>);
  set(Packing::kBF16, Matmul::template Float<FloatBf16<V>>);
  set(Packing::kQ4Scale, Matmul::template Quantized<RecordQ4Scale<V>>);
  set(Packing::kQ4ScaleMin, Matmul::template Quantized<RecordQ4ScaleMin<V>>);
  set(Packing::kQ8Scale, Matmul::template Quantized<RecordQ8Scale<V>>);
  set(Packing::kQ4K, Matmul::template Quantized<RecordQ4K<V>>);
  set(Packing::kQ6K, Matmul::template Quantized<RecordQ6K<V>>);
  return kernels;
}

}  // namespace spillway::cpu
