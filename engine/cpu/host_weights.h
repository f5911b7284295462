// Lays a stage's tensors out into its weight arena (engine/cpu/pack.h) and hands out views of them.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/cpu/host_layout.h"

namespace spillway::cpu {

// Views into the arena; empty (data nullptr, n_out 0) where the model has no such tensor.
struct HostLayerWeights {
  std::array<PackedMatrix, kLayerSlots> matrices;
  std::array<uint64_t, kLayerSlots> slab_bytes =
      {};  // from one expert's or head's matrix to the next; matrices[] is the first
  std::array<const float*, kLayerSlots> vectors = {};  // (rows padded to 16)

  PackedMatrix Slab(LayerSlot slot, uint32_t index) const {
    PackedMatrix matrix = matrices[slot];
    matrix.data += index * slab_bytes[slot];
    return matrix;
  }
};

struct HostWeights {
  std::vector<HostLayerWeights> layers;
  PackedMatrix output;
  const float* output_norm = nullptr;
};

// Fills `arena` (layout.weight_bytes, zeroed) in parallel. `progress` is called with bytes done after each
// layer. The model file's pages that were read are released from this process afterwards.
HostWeights LoadHostWeights(const HostLayout& layout, std::byte* arena, ThreadPool& pool,
                            const std::function<void(uint64_t)>& progress);

}  // namespace spillway::cpu
