// What the kernel tests share: the ISA levels of this machine, and storage whose overrun is seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cpu/kernels.h"

namespace spillway::cpu {

inline std::vector<const Kernels*> Levels() {
  std::vector<const Kernels*> levels = {&ScalarKernels()};
  if (MachineHas(Isa::kAvx2)) levels.push_back(&Avx2Kernels());
  return levels;
}

// 64-byte aligned zeroed storage with a guard band behind it.
template <typename T>
class Aligned {
 public:
  explicit Aligned(size_t count) : count_(count), storage_((count * sizeof(T) + 127) / 64 + 2) {
    std::fill_n(reinterpret_cast<uint8_t*>(data() + count), 64, uint8_t{0xA5});
  }
  T* data() { return reinterpret_cast<T*>(storage_.data()); }
  bool GuardIntact() {
    const auto* guard = reinterpret_cast<const uint8_t*>(data() + count_);
    return std::all_of(guard, guard + 64, [](uint8_t b) { return b == 0xA5; });
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  size_t count_;
  std::vector<Line> storage_;
};

}  // namespace spillway::cpu
