#include "engine/cpu/kernel_table.h"
#include "engine/cpu/simd_scalar.h"

namespace spillway::cpu {

const Kernels& ScalarKernels() {
  static const Kernels kernels = KernelTable<ScalarSimd>::Make(Isa::kScalar);
  return kernels;
}

}  // namespace spillway::cpu
