// Loading of weights and layout of pages for the reference stage.
#include "engine/ref/layer_state.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/ref/ops.h"

namespace spillway::ref {

absl::StatusOr<Weights> Weights::Load(Ledger& ledger, const GgufTensor* tensor) {
  Weights weights;
  if (tensor == nullptr) return weights;
  SPILLWAY_ASSIGN_OR_RETURN(
      weights.buffer_, ledger.Allocate(Purpose::kWeights, tensor->Elements() * sizeof(float), tensor->name));
  weights.elements_ = tensor->Elements();
  const uint64_t slab = tensor->dims[0] * tensor->dims[1];
  const uint64_t n_slabs = tensor->dims[2] * tensor->dims[3];
  for (uint64_t i = 0; i < n_slabs; ++i) {
    FormatOf(tensor->type)
        .dequantize(tensor->Slab(i, n_slabs).data(),
                    reinterpret_cast<float*>(weights.buffer_.data()) + i * slab, slab);
  }
  return weights;
}

absl::StatusOr<Weights> Weights::LoadTransposed(Ledger& ledger, const GgufTensor* tensor) {
  SPILLWAY_ASSIGN_OR_RETURN(Weights weights, Load(ledger, tensor));
  if (tensor == nullptr) return weights;
  const uint64_t columns = tensor->dims[0], rows = tensor->dims[1];
  float* slab = reinterpret_cast<float*>(weights.buffer_.data());
  for (uint64_t i = 0; i < tensor->dims[2]; ++i, slab += rows * columns) {
    const std::vector<float> original(slab, slab + rows * columns);
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t c = 0; c < columns; ++c) slab[c * rows + r] = original[r * columns + c];
    }
  }
  return weights;
}

std::vector<double> NormRows(const Weights& weight, double eps, std::span<const double> x) {
  const size_t n = weight.get().size();
  std::vector<double> normed(x.size());
  for (size_t begin = 0; begin < x.size(); begin += n) {
    RmsNorm(x.subspan(begin, n), weight.get(), eps, std::span(normed).subspan(begin, n));
  }
  return normed;
}

void DequantizeRow(const GgufTensor& tensor, uint64_t row, std::span<float> out) {
  const FormatInfo& format = FormatOf(tensor.type);
  const uint64_t row_bytes = out.size() / format.block_elements * format.block_bytes;
  format.dequantize(tensor.data.data() + row * row_bytes, out.data(), out.size());
}

absl::StatusOr<LayerWeights> LayerWeights::Load(Ledger& ledger, const Model& model, uint32_t layer,
                                                uint32_t n_ctx) {
  const LayerTensors& tensors = model.layers[layer];
  LayerWeights weights;
  const std::pair<Weights*, const GgufTensor*> parts[] = {
      {&weights.attn_norm, tensors.attn_norm},
      {&weights.attn_q, tensors.attn_q},
      {&weights.attn_k, tensors.attn_k},
      {&weights.attn_v, tensors.attn_v},
      {&weights.attn_output, tensors.attn_output},
      {&weights.attn_q_bias, tensors.attn_q_bias},
      {&weights.attn_k_bias, tensors.attn_k_bias},
      {&weights.attn_v_bias, tensors.attn_v_bias},
      {&weights.attn_output_bias, tensors.attn_output_bias},
      {&weights.attn_q_norm, tensors.attn_q_norm},
      {&weights.attn_k_norm, tensors.attn_k_norm},
      {&weights.attn_q_a, tensors.attn_q_a},
      {&weights.attn_q_a_norm, tensors.attn_q_a_norm},
      {&weights.attn_q_b, tensors.attn_q_b},
      {&weights.attn_kv_a, tensors.attn_kv_a},
      {&weights.attn_kv_a_norm, tensors.attn_kv_a_norm},
      {&weights.attn_k_b, tensors.attn_k_b},
      {&weights.attn_v_b, tensors.attn_v_b},
      {&weights.attn_sinks, tensors.attn_sinks},
      {&weights.attn_post_norm, tensors.attn_post_norm},
      {&weights.ssm_qkv, tensors.ssm_qkv},
      {&weights.ssm_gate, tensors.ssm_gate},
      {&weights.ssm_alpha, tensors.ssm_alpha},
      {&weights.ssm_beta, tensors.ssm_beta},
      {&weights.ssm_beta_alpha, tensors.ssm_beta_alpha},
      {&weights.ssm_conv, tensors.ssm_conv},
      {&weights.ssm_a, tensors.ssm_a},
      {&weights.ssm_dt, tensors.ssm_dt},
      {&weights.ssm_norm, tensors.ssm_norm},
      {&weights.ssm_out, tensors.ssm_out},
      {&weights.ffn_norm, tensors.ffn_norm},
      {&weights.ffn_gate, tensors.ffn_gate},
      {&weights.ffn_up, tensors.ffn_up},
      {&weights.ffn_down, tensors.ffn_down},
      {&weights.ffn_post_norm, tensors.ffn_post_norm},
      {&weights.router, tensors.router},
      {&weights.router_bias, tensors.router_bias},
      {&weights.selection_bias, tensors.selection_bias},
      {&weights.gate_experts, tensors.gate_experts},
      {&weights.up_experts, tensors.up_experts},
      {&weights.down_experts, tensors.down_experts},
      {&weights.gate_expert_bias, tensors.gate_expert_bias},
      {&weights.up_expert_bias, tensors.up_expert_bias},
      {&weights.down_expert_bias, tensors.down_expert_bias},
      {&weights.shared_router, tensors.shared_router},
      {&weights.shared_gate, tensors.shared_gate},
      {&weights.shared_up, tensors.shared_up},
      {&weights.shared_down, tensors.shared_down},
  };
  for (const auto& [slot, tensor] : parts) {
    SPILLWAY_ASSIGN_OR_RETURN(*slot, Weights::Load(ledger, tensor));
  }
  if (tensors.attn_k_b_rows != nullptr) {
    SPILLWAY_ASSIGN_OR_RETURN(weights.attn_k_b, Weights::LoadTransposed(ledger, tensors.attn_k_b_rows));
  }
  weights.rope_frequencies = RopeFrequencies(model, model.config.layers[layer], n_ctx);
  return weights;
}

absl::StatusOr<KvPages> KvPages::Create(Ledger& ledger, std::span<const LayerSpec> layers, uint32_t pages) {
  KvPages result;
  for (const LayerSpec& layer : layers) {
    const uint64_t key = uint64_t{layer.KeyHeads()} * layer.KeyDim();
    const Row row = {key, layer.Latent() ? 0 : key};
    result.layer_offsets_.push_back(result.page_size_);
    result.rows_.push_back(row);
    result.page_size_ += kPageTokens * (row.key + row.value);
  }
  if (result.page_size_ > 0) {
    SPILLWAY_ASSIGN_OR_RETURN(
        result.buffer_,
        ledger.Allocate(Purpose::kKvCache, result.page_size_ * pages * sizeof(double), "KV pages"));
  }
  return result;
}

double* KvPages::Key(uint32_t page, uint32_t layer, uint32_t slot) {
  return reinterpret_cast<double*>(buffer_.data()) + page * page_size_ + layer_offsets_[layer] +
         slot * rows_[layer].key;
}

double* KvPages::Value(uint32_t page, uint32_t layer, uint32_t slot) {
  const bool own = rows_[layer].value > 0;
  return Key(page, layer, slot) + (own ? kPageTokens * rows_[layer].key : 0);
}

void KvPages::CopyPage(uint32_t source, uint32_t target) {
  if (page_size_ == 0) return;
  double* base = reinterpret_cast<double*>(buffer_.data());
  std::copy_n(base + source * page_size_, page_size_, base + target * page_size_);
}

}  // namespace spillway::ref
