#include "engine/cpu/host_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <vector>

#include "engine/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// A slab (n_in, n_out) of the file as a matrix (n_out, n_in) of float32.
void PackTransposed(const PlannedTensor& planned, std::span<const std::byte> slab, std::byte* out) {
  const size_t n_in = planned.n_in, n_out = planned.n_out;
  std::vector<float> original(n_in * n_out), rows(n_in * n_out);
  FormatOf(planned.tensor->type).dequantize(slab.data(), original.data(), original.size());
  for (size_t i = 0; i < n_in; ++i) {
    for (size_t o = 0; o < n_out; ++o) rows[o * n_in + i] = original[i * n_out + o];
  }
  PackMatrix(TensorType::kF32, std::as_bytes(std::span(rows)), planned.n_out, planned.n_in, out);
}

// Columns of the tensor (n_in rows of n_out) as vectors of float32.
void FillTransposed(const PlannedTensor& planned, float* out) {
  std::vector<float> original(size_t{planned.n_in} * planned.n_out);
  FormatOf(planned.tensor->type).dequantize(planned.tensor->data.data(), original.data(), original.size());
  for (size_t i = 0; i < original.size(); ++i) {
    out[i % planned.n_out * PadTo16(planned.n_in) + i / planned.n_out] = original[i];
  }
}

void Fill(const PlannedTensor& planned, std::byte* arena) {
  if (planned.tensor == nullptr) return;
  std::byte* out = arena + planned.offset;
  if (planned.vector && planned.transposed) {
    FillTransposed(planned, reinterpret_cast<float*>(out));
  } else if (planned.vector) {
    const std::span<const std::byte> data = planned.tensor->data;
    const uint64_t row_bytes = data.size() / planned.n_out;
    for (uint32_t row = 0; row < planned.n_out; ++row) {
      FormatOf(planned.tensor->type)
          .dequantize(data.data() + row * row_bytes,
                      reinterpret_cast<float*>(out) + uint64_t{row} * PadTo16(planned.n_in), planned.n_in);
    }
  }
  if (planned.vector) return;
  for (uint32_t i = 0; i < planned.n_slabs; ++i, out += planned.bytes / planned.n_slabs) {
    const std::span<const std::byte> slab = planned.tensor->Slab(i, planned.n_slabs);
    if (planned.transposed) {
      PackTransposed(planned, slab, out);
    } else {
      PackMatrix(planned.tensor->type, slab, planned.n_out, planned.n_in, out);
    }
  }
}

// The laid-out copy is what is computed with; the file's pages would only count twice in the resident set.
void ReleaseFilePages(std::span<const std::byte> data) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data.data()) + data.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

PackedMatrix MatrixView(const PlannedTensor& planned, const std::byte* arena) {
  if (planned.tensor == nullptr || planned.vector) return {};
  return PackedMatrix{planned.packing, planned.n_out, planned.n_in, arena + planned.offset,
                      PackedGroupBytes(planned.packing, planned.n_in)};
}

const float* VectorView(const PlannedTensor& planned, const std::byte* arena) {
  if (planned.tensor == nullptr || !planned.vector) return nullptr;
  return reinterpret_cast<const float*>(arena + planned.offset);
}

}  // namespace

HostWeights LoadHostWeights(const HostLayout& layout, std::byte* arena, ThreadPool& pool,
                            const std::function<void(uint64_t)>& progress) {
  HostWeights weights;
  uint64_t done = 0;
  const auto fill_all = [&](std::span<const PlannedTensor> tensors) {
    std::atomic<size_t> next{0};
    pool.Run([&](int) {
      for (size_t i = next.fetch_add(1); i < tensors.size(); i = next.fetch_add(1)) Fill(tensors[i], arena);
    });
    for (const PlannedTensor& planned : tensors) {
      if (planned.tensor != nullptr) {
        ReleaseFilePages(planned.tensor->data);
        for (const std::span<const std::byte> slab : planned.tensor->slabs) ReleaseFilePages(slab);
      }
      done += planned.bytes;
    }
    if (progress) progress(done);
  };
  for (const auto& slots : layout.layers) {
    fill_all(slots);
    HostLayerWeights& layer = weights.layers.emplace_back();
    for (size_t slot = 0; slot < kLayerSlots; ++slot) {
      layer.matrices[slot] = MatrixView(slots[slot], arena);
      layer.slab_bytes[slot] = slots[slot].bytes / slots[slot].n_slabs;
      layer.vectors[slot] = VectorView(slots[slot], arena);
    }
  }
  const std::array head = {layout.output_norm, layout.output};
  fill_all(head);
  weights.output_norm = VectorView(layout.output_norm, arena);
  weights.output = MatrixView(layout.output, arena);
  return weights;
}

}  // namespace spillway::cpu
