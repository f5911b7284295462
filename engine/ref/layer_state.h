// Weights of one layer as float32, and the paged keys and values of a stage in double. Private to engine/ref.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/model/config.h"
#include "engine/stage/stage.h"

namespace spillway::ref {

// A dequantized tensor; empty where the model has none.
class Weights {
 public:
  static absl::StatusOr<Weights> Load(Ledger& ledger, const GgufTensor* tensor);
  // Every slab (rows, columns) of the tensor becomes (columns, rows).
  static absl::StatusOr<Weights> LoadTransposed(Ledger& ledger, const GgufTensor* tensor);
  bool present() const { return elements_ > 0; }
  // Part `index` of `count` equal ones; empty of an empty one.
  std::span<const float> Part(uint32_t index, uint32_t count) const {
    return get().subspan(index * (elements_ / count), elements_ / count);
  }
  std::span<const float> get() const {
    return {reinterpret_cast<const float*>(buffer_.data()), static_cast<size_t>(elements_)};
  }

 private:
  Buffer buffer_;
  uint64_t elements_ = 0;
};

// RMSNorm of every row of x, whose length is the weight's.
std::vector<double> NormRows(const Weights& weight, double eps, std::span<const double> x);

// Row `row` of a matrix (rows, out.size()), dequantized.
void DequantizeRow(const GgufTensor& tensor, uint64_t row, std::span<float> out);

// Shapes as in LayerTensors.
struct LayerWeights {
  Weights attn_norm, attn_q, attn_k, attn_v, attn_output;
  Weights attn_q_bias, attn_k_bias, attn_v_bias, attn_output_bias, attn_q_norm, attn_k_norm;
  Weights attn_q_a, attn_q_a_norm, attn_q_b, attn_kv_a, attn_kv_a_norm;
  Weights attn_k_b;  // in whichever form the file has it
  Weights attn_v_b, attn_sinks, attn_post_norm;
  Weights ssm_qkv, ssm_gate, ssm_alpha, ssm_beta, ssm_beta_alpha;
  Weights ssm_conv, ssm_a, ssm_dt, ssm_norm, ssm_out;
  Weights ffn_norm, ffn_gate, ffn_up, ffn_down, ffn_post_norm;
  Weights router, router_bias, selection_bias;
  Weights gate_experts, up_experts, down_experts, gate_expert_bias, up_expert_bias, down_expert_bias;
  Weights shared_router, shared_gate, shared_up, shared_down;
  std::vector<float> rope_frequencies;  // (n_rot / 2)

  static absl::StatusOr<LayerWeights> Load(Ledger& ledger, const Model& model, uint32_t layer,
                                           uint32_t n_ctx);
};

// A page holds, for each layer of the stage, kPageTokens rows of keys (KeyHeads * KeyDim) and then of values
// (n_head_kv * head_dim); of latent layers only keys, of recurrent ones nothing.
class KvPages {
 public:
  static absl::StatusOr<KvPages> Create(Ledger& ledger, std::span<const LayerSpec> layers, uint32_t pages);

  // `layer` counts from the stage's first. A latent layer's values are the beginnings of its keys.
  double* Key(uint32_t page, uint32_t layer, uint32_t slot);
  double* Value(uint32_t page, uint32_t layer, uint32_t slot);
  void CopyPage(uint32_t source, uint32_t target);

 private:
  std::vector<uint64_t> layer_offsets_;  // doubles from the start of a page
  struct Row {
    uint64_t key, value;  // doubles; no value of its own: 0
  };
  std::vector<Row> rows_;
  uint64_t page_size_ = 0;  // doubles
  Buffer buffer_;
};

}  // namespace spillway::ref
