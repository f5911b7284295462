#include "engine/cpu/host_layout.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/cpu/kernels.h"
#include "engine/sampling/sampler.h"
#include "engine/stage/checkpoints.h"

namespace spillway::cpu {
namespace {

enum class Form : uint8_t { kMatrix, kTransposed, kVector, kTransposedVectors };

// Books a tensor at the end of the weight arena.
void Place(const GgufTensor* tensor, Form form, HostLayout* layout, PlannedTensor* planned) {
  if (tensor == nullptr) return;
  planned->tensor = tensor;
  planned->vector = form == Form::kVector || form == Form::kTransposedVectors;
  planned->transposed = form == Form::kTransposed || form == Form::kTransposedVectors;
  planned->n_in = static_cast<uint32_t>(tensor->dims[0]);
  planned->n_out = static_cast<uint32_t>(tensor->dims[1]);
  planned->n_slabs = static_cast<uint32_t>(tensor->dims[2] * tensor->dims[3]);
  if (planned->transposed) std::swap(planned->n_in, planned->n_out);
  if (planned->vector) {
    planned->bytes = uint64_t{planned->n_out} * PadTo16(planned->n_in) * sizeof(float);
  } else {
    planned->packing = planned->transposed ? Packing::kF32 : PackingOf(tensor->type);
    planned->bytes = planned->n_slabs * PackedBytes(planned->packing, planned->n_out, planned->n_in);
  }
  planned->offset = layout->weight_bytes;
  layout->weight_bytes += LedgerBytes(planned->bytes);
}

void PlaceLayer(const LayerTensors& t, HostLayout* layout) {
  auto& slots = layout->layers.emplace_back();
  const std::pair<LayerSlot, const GgufTensor*> matrices[] = {
      {kAttnQ, t.attn_q},
      {kAttnK, t.attn_k},
      {kAttnV, t.attn_v},
      {kAttnOutput, t.attn_output},
      {kAttnQA, t.attn_q_a},
      {kAttnQB, t.attn_q_b},
      {kAttnKvA, t.attn_kv_a},
      {kAttnKB, t.attn_k_b},
      {kAttnVB, t.attn_v_b},
      {kSsmQkv, t.ssm_qkv},
      {kSsmGate, t.ssm_gate},
      {kSsmAlpha, t.ssm_alpha},
      {kSsmBeta, t.ssm_beta},
      {kSsmBetaAlpha, t.ssm_beta_alpha},
      {kSsmOut, t.ssm_out},
      {kFfnGate, t.ffn_gate},
      {kFfnUp, t.ffn_up},
      {kFfnDown, t.ffn_down},
      {kRouter, t.router},
      {kGateExperts, t.gate_experts},
      {kUpExperts, t.up_experts},
      {kDownExperts, t.down_experts},
      {kSharedRouter, t.shared_router},
      {kSharedGate, t.shared_gate},
      {kSharedUp, t.shared_up},
      {kSharedDown, t.shared_down},
  };
  const std::pair<LayerSlot, const GgufTensor*> vectors[] = {
      {kAttnNorm, t.attn_norm},
      {kAttnQBias, t.attn_q_bias},
      {kAttnKBias, t.attn_k_bias},
      {kAttnVBias, t.attn_v_bias},
      {kAttnOutputBias, t.attn_output_bias},
      {kAttnQNorm, t.attn_q_norm},
      {kAttnKNorm, t.attn_k_norm},
      {kAttnQANorm, t.attn_q_a_norm},
      {kAttnKvANorm, t.attn_kv_a_norm},
      {kAttnSinks, t.attn_sinks},
      {kAttnPostNorm, t.attn_post_norm},
      {kSsmA, t.ssm_a},
      {kSsmDt, t.ssm_dt},
      {kSsmNorm, t.ssm_norm},
      {kFfnNorm, t.ffn_norm},
      {kFfnPostNorm, t.ffn_post_norm},
      {kRouterBias, t.router_bias},
      {kSelectionBias, t.selection_bias},
      {kGateExpertBias, t.gate_expert_bias},
      {kUpExpertBias, t.up_expert_bias},
      {kDownExpertBias, t.down_expert_bias},
  };
  for (const auto& [slot, tensor] : matrices) Place(tensor, Form::kMatrix, layout, &slots[slot]);
  for (const auto& [slot, tensor] : vectors) Place(tensor, Form::kVector, layout, &slots[slot]);
  Place(t.attn_k_b_rows, Form::kTransposed, layout, &slots[kAttnKB]);
  Place(t.ssm_conv, Form::kTransposedVectors, layout, &slots[kSsmConv]);
}

// What attention, or what stands for it, needs of a row of kQkv and of kInput.
struct MixerWidths {
  uint32_t qkv, input;
};

MixerWidths WidthsOf(const LayerSpec& layer) {
  if (layer.Recurrent()) return {RecurrentColumns(layer.recurrent).width, PadTo32(layer.recurrent.Values())};
  const uint32_t output = PadTo32(layer.n_head * layer.OutputDim());
  if (layer.Latent()) {
    const LatentColumns at(layer);
    return {at.width, std::max({output, layer.n_head * at.key_stride, layer.n_head * at.value_stride,
                                PadTo32(layer.latent.n_q_latent)})};
  }
  const uint32_t q = layer.n_head * layer.head_dim;
  const uint32_t gated = layer.output_gate ? PadTo16(2 * q) : 0;
  return {PadTo16(q) + 2 * PadTo16(layer.n_head_kv * layer.head_dim) + gated, output};
}

uint64_t PageBytes(const LayerSpec& layer, const StageOptions& options) {
  if (layer.Recurrent()) return 0;
  const uint64_t keys = layer.KeyHeads() * KeyPageBytes(options.cache_type_k, layer.KeyDim());
  if (layer.Latent()) return keys;
  return keys + layer.n_head_kv * ValuePageBytes(options.cache_type_v, layer.head_dim);
}

// Strides: the widest layer held decides.
void SetStrides(const Model& model, const StageUnits& units, const StageOptions& options,
                HostLayout* layout) {
  const ModelConfig& config = model.config;
  layout->embd_stride = PadTo32(config.n_embd);
  layout->input_stride = layout->embd_stride;
  layout->vocab_stride = PadTo16(config.n_vocab);
  layout->scores_stride = PagesFor(options.n_ctx) * kPageTokens;
  uint64_t pages_end = 0;
  for (uint32_t i = units.layer_begin; i < units.layer_end; ++i) {
    const LayerSpec& layer = config.layers[i];
    const MixerWidths mixer = WidthsOf(layer);
    layout->qkv_stride = std::max(layout->qkv_stride, mixer.qkv);
    const ExpertSpec& experts = layer.experts;
    const uint32_t visited = experts.n_used * PadTo32(experts.n_ff) + PadTo32(experts.n_ff_shared);
    layout->ff_stride = std::max({layout->ff_stride, PadTo32(layer.n_ff), visited});
    layout->max_experts = std::max(layout->max_experts, experts.n_expert);
    layout->max_used_experts = std::max(layout->max_used_experts, experts.n_used);
    layout->input_stride = std::max(layout->input_stride, mixer.input);
    layout->angle_stride = std::max(layout->angle_stride, PadTo16(layer.rope.n_rot / 2));
    const uint64_t page_bytes = PageBytes(layer, options);
    layout->pages.push_back({pages_end, page_bytes});
    pages_end += options.kv_pages * page_bytes;
    layout->state_offsets.push_back(layout->state_stride);
    layout->state_stride += layer.recurrent.State();
  }
  layout->input_stride = std::max(layout->input_stride, layout->ff_stride);
  layout->code_stride = layout->input_stride;
  if (layout->max_experts > 0) layout->router_stride = PadTo16(layout->max_experts) + 16;
}

// Whether some block's output is normed, scaled or summed up before it is added to the residual.
bool HasBranches(const Model& model, const StageUnits& units) {
  for (uint32_t i = units.layer_begin; i < units.layer_end; ++i) {
    if (HasBranch(model.config.layers[i], model.layers[i])) return true;
  }
  return false;
}

void SetBuffers(const Model& model, const StageUnits& units, const StageOptions& options,
                HostLayout* layout) {
  const uint64_t rows = options.max_rows;
  const auto set = [&](BufferSlot slot, Purpose purpose, uint64_t bytes) {
    layout->buffers[slot] = PlannedBuffer{purpose, LedgerBytes(bytes)};
  };
  set(kResidual, Purpose::kActivations, rows * layout->embd_stride * sizeof(float));
  set(kInput, Purpose::kActivations, rows * layout->input_stride * sizeof(float));
  set(kQkv, Purpose::kActivations, rows * layout->qkv_stride * sizeof(float));
  set(kGate, Purpose::kActivations, rows * layout->ff_stride * sizeof(float));
  set(kUp, Purpose::kActivations, rows * layout->ff_stride * sizeof(float));
  set(kCodes, Purpose::kWorkspace, rows * layout->code_stride);
  set(kBlocks, Purpose::kWorkspace, rows * (layout->code_stride / 32) * sizeof(ActivationBlock));
  set(kAngles, Purpose::kWorkspace, rows * 2 * layout->angle_stride * sizeof(float));
  set(kScores, Purpose::kWorkspace, uint64_t{options.threads} * 4 * layout->scores_stride * sizeof(float));
  uint64_t page_bytes = 0;  // of all layers
  for (const HostLayout::LayerPages& layer : layout->pages) page_bytes += layer.page_bytes;
  set(kKv, Purpose::kKvCache, options.kv_pages * page_bytes);
  set(kState, Purpose::kRecurrentState,
      uint64_t{options.max_sequences} * kStateSlots * layout->state_stride * sizeof(float));
  if (HasBranches(model, units))
    set(kBranch, Purpose::kActivations, rows * layout->embd_stride * sizeof(float));
  if (layout->max_experts > 0) {
    set(kRouterLogits, Purpose::kWorkspace, rows * layout->router_stride * sizeof(float));
    set(kExpertOut, Purpose::kWorkspace, layout->embd_stride * sizeof(float));
  }
  if (units.head) {
    set(kLogits, Purpose::kWorkspace, uint64_t{kGroupRows} * layout->vocab_stride * sizeof(float));
    set(kSampling, Purpose::kWorkspace, SamplerScratch::Bytes(model.config.n_vocab));
    set(kLogitsOut, Purpose::kStaging, uint64_t{kMaxLogitRows} * model.config.n_vocab * sizeof(float));
    set(kTop, Purpose::kStaging, rows * kMaxTopLogprobs * sizeof(TokenLogprob));
  } else {
    set(kOutput, Purpose::kStaging, rows * model.config.n_embd * sizeof(float));
  }
}

absl::Status CheckShape(const Model& model, const StageUnits& units, const StageOptions& options) {
  if (units.layer_begin > units.layer_end || units.layer_end > model.config.n_layer) {
    return InvalidArgument("layers [{}, {}) are not layers of a model with {}", units.layer_begin,
                           units.layer_end, model.config.n_layer);
  }
  if (options.n_ctx == 0 || options.kv_pages == 0 || options.max_sequences == 0 || options.max_rows == 0 ||
      options.threads == 0) {
    return InvalidArgument("context {}, pages {}, sequences {}, rows {} and threads {} must all be positive",
                           options.n_ctx, options.kv_pages, options.max_sequences, options.max_rows,
                           options.threads);
  }
  if (options.n_ctx > (1u << 24) || options.kv_pages > (1u << 24) || options.max_sequences > (1u << 16) ||
      options.max_rows > (1u << 16) || options.threads > 4096) {
    return InvalidArgument("context {}, pages {}, sequences {}, rows {} or threads {} is absurd",
                           options.n_ctx, options.kv_pages, options.max_sequences, options.max_rows,
                           options.threads);
  }
  return absl::OkStatus();
}

}  // namespace

LatentColumns::LatentColumns(const LayerSpec& spec)
    : latent(PadTo16(spec.n_head * spec.head_dim)),
      heads(latent + PadTo16(spec.KeyDim())),
      head_stride(PadTo16(std::max(spec.KeyDim(), spec.latent.n_value))),
      width(heads + PadTo16(std::max(spec.n_head * head_stride, spec.latent.n_q_latent))),
      key_stride(PadTo32(spec.head_dim - spec.rope.n_rot)),
      value_stride(PadTo32(spec.latent.n_latent)) {}

RecurrentColumns::RecurrentColumns(const RecurrentSpec& spec)
    : gate(spec.Channels()),
      beta(gate + spec.Values()),
      alpha(beta + PadTo16(spec.n_head_v)),
      width(alpha + PadTo16(spec.n_head_v)) {}

bool HasBranch(const LayerSpec& spec, const LayerTensors& tensors) {
  return spec.residual_scale != 1.0f || spec.experts.n_expert > 0 || tensors.attn_post_norm != nullptr;
}

PurposeBytes HostLayout::Bytes() const {
  PurposeBytes bytes;
  bytes[Purpose::kWeights] = LedgerBytes(weight_bytes) + LedgerBytes(mapped_bytes);
  for (const PlannedBuffer& buffer : buffers) bytes[buffer.purpose] += buffer.bytes;
  return bytes;
}

absl::StatusOr<HostLayout> LayOutHostStage(const Model& model, const StageUnits& units,
                                           const StageOptions& options) {
  SPILLWAY_RETURN_IF_ERROR(CheckShape(model, units, options));
  HostLayout layout;
  for (uint32_t i = units.layer_begin; i < units.layer_end; ++i) {
    PlaceLayer(model.layers[i], &layout);
  }
  if (units.head) {
    Place(model.output_norm, Form::kVector, &layout, &layout.output_norm);
    Place(model.output, Form::kMatrix, &layout, &layout.output);
  }
  if (units.embedding) layout.mapped_bytes = model.token_embd->bytes;
  SetStrides(model, units, options, &layout);
  SetBuffers(model, units, options, &layout);
  return layout;
}

absl::StatusOr<PurposeBytes> HostStageBytes(const Model& model, const StageUnits& units,
                                            const StageOptions& options) {
  SPILLWAY_ASSIGN_OR_RETURN(const HostLayout layout, LayOutHostStage(model, units, options));
  return layout.Bytes();
}

}  // namespace spillway::cpu
