#include <cstdlib>
#include <string_view>

#include "engine/base/status.h"
#include "engine/cpu/kernels.h"

namespace spillway::cpu {

bool MachineHas(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
  }
  return false;
}

std::string_view IsaName(Isa isa) { return isa == Isa::kAvx2 ? "avx2" : "scalar"; }

Isa DetectIsa() {
  const char* wanted = std::getenv("SPILLWAY_ISA");
  const Isa best = MachineHas(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar;
  if (wanted == nullptr) return best;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2}) {
    if (IsaName(isa) == wanted && MachineHas(isa)) return isa;
  }
  return best;
}

const Kernels& KernelsFor(Isa isa) {
  SPILLWAY_CHECK(MachineHas(isa));
  return isa == Isa::kAvx2 ? Avx2Kernels() : ScalarKernels();
}

}  // namespace spillway::cpu
