// Latent attention on the host, in the absorbed form: queries are multiplied by the matrix that would make
// keys of the latent, scores are products with the cached latent itself, and values are made of the weighted
// latent, head by head. So a position costs n_latent + n_rot values of cache, and no key or value is ever
// made.
#include <algorithm>

#include "engine/cpu/host_stage_impl.h"

namespace spillway::cpu {

// Row -> (q_a, norm, q_b or q) and the latent; cached; then queries against the cache in
// LatentColumns::heads.
void HostStage::ProjectLatent(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index) {
  const auto& m = weights.matrices;
  const LatentColumns at(spec);
  const uint32_t rows = static_cast<uint32_t>(rows_.size());
  const uint64_t stride = layout_.qkv_stride;
  float* qkv = Floats(kQkv);
  const uint32_t rank = spec.latent.n_q_latent;
  const LayerSlot first = rank > 0 ? kAttnQA : kAttnQ;
  NormInput(weights.vectors[kAttnNorm], spec.norm_eps, m[first].Quantized() || m[kAttnKvA].Quantized());
  const Product products[] = {{&m[first], rank > 0 ? qkv + at.heads : qkv, stride, nullptr, false},
                              {&m[kAttnKvA], qkv + at.latent, stride, nullptr, false}};
  Multiply(products, rows);
  if (rank > 0) {
    ForRows([&](uint32_t row) {
      kernels_.rms_norm(qkv + row * stride + at.heads, weights.vectors[kAttnQANorm], spec.norm_eps, rank,
                        Floats(kInput) + uint64_t{row} * layout_.input_stride);
    });
    if (m[kAttnQB].Quantized()) QuantizeInput(rank);
    const Product expand[] = {{&m[kAttnQB], qkv, stride, nullptr, false}};
    Multiply(expand, rows);
  }

  CacheLatent(spec, weights, index);
  if (m[kAttnKB].Quantized()) QuantizeInput(spec.n_head * at.key_stride);
  MultiplyHeads(spec, weights, kAttnKB, at.key_stride);
  const uint32_t n_key = spec.head_dim - spec.rope.n_rot;
  ForRows([&](uint32_t row) {
    const float* q = qkv + row * stride;
    float* heads = qkv + row * stride + at.heads;
    for (uint32_t h = 0; h < spec.n_head; ++h) {
      std::copy_n(q + uint64_t{h} * spec.head_dim + n_key, spec.rope.n_rot,
                  heads + uint64_t{h} * at.head_stride + spec.latent.n_latent);
    }
  });
}

// Norm and rotation of the latent, which goes into its page, and of queries, whose unrotated parts go to
// kInput.
void HostStage::CacheLatent(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index) {
  const LatentColumns at(spec);
  const uint32_t n_key = spec.head_dim - spec.rope.n_rot;
  SetAngles(layer_table_[index]);
  ForRows([&](uint32_t row) {
    float* q = Floats(kQkv) + uint64_t{row} * layout_.qkv_stride;
    float* latent = q + at.latent;
    const float* cos = Floats(kAngles) + uint64_t{row} * 2 * layout_.angle_stride;
    const float* sin = cos + layout_.angle_stride;
    const uint32_t position = rows_[row].position;
    NormPart(weights.vectors[kAttnKvANorm], spec.norm_eps, spec.latent.n_latent, latent);
    RotateHead(spec.rope, cos, sin, latent + spec.latent.n_latent);
    if (rows_[row].write) {
      kernels_.store_key(options_.cache_type_k, latent, spec.KeyDim(), position % kPageTokens,
                         Page(index, rows_[row].state->pages[position / kPageTokens]));
    }
    Temper(spec, position, q);
    float* input = Floats(kInput) + uint64_t{row} * layout_.input_stride;
    for (uint32_t h = 0; h < spec.n_head; ++h) {
      float* head = q + uint64_t{h} * spec.head_dim;
      RotateHead(spec.rope, cos, sin, head + n_key);
      float* key_part = input + uint64_t{h} * at.key_stride;
      std::fill(std::copy_n(head, n_key, key_part), key_part + at.key_stride, 0.0f);
    }
  });
}

// LatentColumns::heads[row, h] = slab h of the matrix times kInput[row, h]. One region over the groups of all
// heads.
void HostStage::MultiplyHeads(const LayerSpec& spec, const HostLayerWeights& weights, LayerSlot slot,
                              uint32_t in_stride) {
  const LatentColumns at(spec);
  const int64_t groups = weights.matrices[slot].Groups();
  pool_.ParallelFor(spec.n_head * groups, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const uint32_t head = static_cast<uint32_t>(begin / groups);
      const int64_t from = begin % groups;
      const int64_t to = std::min(groups, from + end - begin);
      const PackedMatrix w = weights.Slab(slot, head);
      const QuantizedRows codes = CodesOf(0, head * in_stride);
      MatmulArgs args;
      args.w = &w;
      args.x = Floats(kInput) + uint64_t{head} * in_stride;
      args.x_stride = layout_.input_stride;
      args.quantized = &codes;
      args.rows = static_cast<uint32_t>(rows_.size());
      args.y = Floats(kQkv) + at.heads + uint64_t{head} * at.head_stride;
      args.y_stride = layout_.qkv_stride;
      kernels_.matmul[static_cast<size_t>(w.packing)](args, static_cast<uint32_t>(from),
                                                      static_cast<uint32_t>(to));
      begin += to - from;
    }
  });
}

// Weighted latents in kInput -> values of heads side by side in kInput.
void HostStage::LatentValues(const LayerSpec& spec, const HostLayerWeights& weights) {
  const LatentColumns at(spec);
  if (weights.matrices[kAttnVB].Quantized()) QuantizeInput(spec.n_head * at.value_stride);
  MultiplyHeads(spec, weights, kAttnVB, at.value_stride);
  const uint32_t n_value = spec.latent.n_value;
  ForRows([&](uint32_t row) {
    const float* heads = Floats(kQkv) + uint64_t{row} * layout_.qkv_stride + at.heads;
    float* input = Floats(kInput) + uint64_t{row} * layout_.input_stride;
    for (uint32_t h = 0; h < spec.n_head; ++h) {
      std::copy_n(heads + uint64_t{h} * at.head_stride, n_value, input + uint64_t{h} * n_value);
    }
  });
}

}  // namespace spillway::cpu
