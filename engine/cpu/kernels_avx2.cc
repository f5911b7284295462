// Compiled with -mavx2 -mfma -mf16c. Everything the bodies instantiate here must stay in this translation
// unit, so the header-only helpers it shares with others are templates over Avx2Simd.
#include "engine/cpu/kernel_table.h"
#include "engine/cpu/simd_avx2.h"

namespace spillway::cpu {

const Kernels& Avx2Kernels() {
  static const Kernels kernels = KernelTable<Avx2Simd>::Make(Isa::kAvx2);
  return kernels;
}

}  // namespace spillway::cpu
