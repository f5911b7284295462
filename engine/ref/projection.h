// What attention is computed with, of a segment's rows: queries against the cached keys, keys and values to
// store; and what its result becomes. Private to engine/ref.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"
#include "engine/ref/layer_state.h"

namespace spillway::ref {

struct Projection {
  std::vector<double> q;     // (rows, n_head, KeyDim)
  std::vector<double> k;     // (rows, KeyHeads, KeyDim)
  std::vector<double> v;     // (rows, n_head_kv, head_dim); empty where values are the beginnings of keys
  std::vector<double> gate;  // (rows, n_head, head_dim), or empty: its sigmoid multiplies what heads give
};

// Of normed rows (rows, n_embd) at positions from `begin` on: products, biases, norms, RoPE, temperature.
Projection Project(const LayerSpec& spec, const LayerWeights& weights, std::span<const double> normed,
                   uint32_t begin);

// attended (rows, n_head, ValueDim) -> (rows, n_head, OutputDim), which the output's product reads.
std::vector<double> HeadOutputs(const LayerSpec& spec, const LayerWeights& weights,
                                std::vector<double> attended);

}  // namespace spillway::ref
