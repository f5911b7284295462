// Tensor names → Model, every shape checked against the config. Knows no keys.
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "engine/base/status.h"
#include "engine/model/architecture.h"

namespace spillway::model {
namespace {

constexpr uint64_t kMaxVocab = 1u << 24;

std::string ShapeOf(const GgufTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) text += fmt::format("{}{}", i ? ", " : "", tensor.dims[i]);
  return text + "]";
}

// Remembers what was taken, so that what is left over can be refused.
class Binder {
 public:
  Binder(const GgufFile& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  // (n), F32.
  absl::Status Vector(const std::string& name, Presence presence, uint64_t n, const GgufTensor** slot) {
    SPILLWAY_RETURN_IF_ERROR(Take(name, presence, slot));
    if (*slot == nullptr) return absl::OkStatus();
    if ((*slot)->dims[0] != n || (*slot)->Rows() != 1) {
      return InvalidArgument("tensor {} has shape {}; the config asks for [{}]", name, ShapeOf(**slot), n);
    }
    if ((*slot)->type != TensorType::kF32) {
      return Unimplemented("tensor {} is {}; norms, biases and rope factors must be F32", name,
                           FormatOf((*slot)->type).name);
    }
    return absl::OkStatus();
  }

  // (n_out rows, n_in contiguous), any format.
  absl::Status Matrix(const std::string& name, Presence presence, uint64_t n_out, uint64_t n_in,
                      const GgufTensor** slot) {
    SPILLWAY_RETURN_IF_ERROR(Take(name, presence, slot));
    if (*slot == nullptr) return absl::OkStatus();
    if ((*slot)->dims[0] != n_in || (*slot)->dims[1] != n_out || (*slot)->Rows() != n_out) {
      return InvalidArgument("tensor {} has shape {}; the config asks for [{}, {}]", name, ShapeOf(**slot),
                             n_in, n_out);
    }
    return absl::OkStatus();
  }

  absl::Status RefuseLeftOver() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      // Some old converters wrote the rotary frequencies of every layer; they repeat the keys.
      if (taken_.contains(&tensor) || tensor.name.ends_with("attn_rot_embd.weight")) continue;
      return Unimplemented(
          "tensor {} {} has no place in architecture {}; ignoring it would give wrong tokens", tensor.name,
          ShapeOf(tensor), architecture_);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(const std::string& name, Presence presence, const GgufTensor** slot) {
    *slot = presence == Presence::kAbsent ? nullptr : file_.FindTensor(name);
    if (*slot != nullptr) taken_.insert(*slot);
    if (*slot == nullptr && presence == Presence::kRequired) {
      return InvalidArgument("tensor {} is missing; architecture {} needs it", name, architecture_);
    }
    return absl::OkStatus();
  }

  const GgufFile& file_;
  const std::string_view architecture_;
  std::unordered_set<const GgufTensor*> taken_;
};

absl::Status BindLayer(const Architecture& architecture, uint32_t index, const LayerSpec& spec,
                       uint32_t n_embd, Binder& binder, LayerTensors* layer) {
  const auto name = [&](std::string_view suffix) { return fmt::format("blk.{}.{}", index, suffix); };
  const uint64_t n_q = uint64_t{spec.n_head} * spec.head_dim;
  const uint64_t n_kv = uint64_t{spec.n_head_kv} * spec.head_dim;
  const auto required = Presence::kRequired;
  const auto qk_norm = architecture.qk_norm ? Presence::kRequired : Presence::kAbsent;
  const auto bias = architecture.qkv_bias;

  SPILLWAY_RETURN_IF_ERROR(binder.Vector(name("attn_norm.weight"), required, n_embd, &layer->attn_norm));
  SPILLWAY_RETURN_IF_ERROR(binder.Matrix(name("attn_q.weight"), required, n_q, n_embd, &layer->attn_q));
  SPILLWAY_RETURN_IF_ERROR(binder.Matrix(name("attn_k.weight"), required, n_kv, n_embd, &layer->attn_k));
  SPILLWAY_RETURN_IF_ERROR(binder.Matrix(name("attn_v.weight"), required, n_kv, n_embd, &layer->attn_v));
  SPILLWAY_RETURN_IF_ERROR(
      binder.Matrix(name("attn_output.weight"), required, n_embd, n_q, &layer->attn_output));
  SPILLWAY_RETURN_IF_ERROR(binder.Vector(name("attn_q.bias"), bias, n_q, &layer->attn_q_bias));
  SPILLWAY_RETURN_IF_ERROR(binder.Vector(name("attn_k.bias"), bias, n_kv, &layer->attn_k_bias));
  SPILLWAY_RETURN_IF_ERROR(binder.Vector(name("attn_v.bias"), bias, n_kv, &layer->attn_v_bias));
  SPILLWAY_RETURN_IF_ERROR(
      binder.Vector(name("attn_output.bias"), architecture.output_bias, n_embd, &layer->attn_output_bias));
  SPILLWAY_RETURN_IF_ERROR(
      binder.Vector(name("attn_q_norm.weight"), qk_norm, spec.head_dim, &layer->attn_q_norm));
  SPILLWAY_RETURN_IF_ERROR(
      binder.Vector(name("attn_k_norm.weight"), qk_norm, spec.head_dim, &layer->attn_k_norm));
  SPILLWAY_RETURN_IF_ERROR(binder.Vector(name("ffn_norm.weight"), required, n_embd, &layer->ffn_norm));
  SPILLWAY_RETURN_IF_ERROR(
      binder.Matrix(name("ffn_gate.weight"), required, spec.n_ff, n_embd, &layer->ffn_gate));
  SPILLWAY_RETURN_IF_ERROR(binder.Matrix(name("ffn_up.weight"), required, spec.n_ff, n_embd, &layer->ffn_up));
  return binder.Matrix(name("ffn_down.weight"), required, n_embd, spec.n_ff, &layer->ffn_down);
}

// Divisors of frequencies: finite and not zero, or positions become NaN.
absl::Status CheckRopeFactors(const GgufTensor& tensor) {
  for (uint64_t i = 0; i < tensor.Elements(); ++i) {
    float value;
    std::memcpy(&value, tensor.data.data() + i * sizeof(float), sizeof(value));
    if (!std::isfinite(value) || value == 0.0f) {
      return InvalidArgument("tensor {}[{}] is {}; it divides a frequency and must be finite and not zero",
                             tensor.name, i, value);
    }
  }
  return absl::OkStatus();
}

absl::Status SetVocab(Model* model) {
  const GgufTensor* embedding = model->file->FindTensor("token_embd.weight");
  if (embedding == nullptr) return InvalidArgument("tensor token_embd.weight is missing");
  if (embedding->dims[1] == 0 || embedding->dims[1] > kMaxVocab) {
    return InvalidArgument("tensor token_embd.weight has shape {}; its row count must be in [1, {}]",
                           ShapeOf(*embedding), kMaxVocab);
  }
  model->config.n_vocab = static_cast<uint32_t>(embedding->dims[1]);
  const auto* tokens = model->file->FindStrings("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->size() != model->config.n_vocab) {
    return InvalidArgument(
        "tensor token_embd.weight has shape {}, but key tokenizer.ggml.tokens has {} entries",
        ShapeOf(*embedding), tokens->size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BindTensors(const Architecture& architecture, Model* model) {
  SPILLWAY_RETURN_IF_ERROR(SetVocab(model));
  const ModelConfig& config = model->config;
  Binder binder(*model->file, architecture.name);
  const auto required = Presence::kRequired;
  const auto optional = Presence::kOptional;
  SPILLWAY_RETURN_IF_ERROR(
      binder.Matrix("token_embd.weight", required, config.n_vocab, config.n_embd, &model->token_embd));
  SPILLWAY_RETURN_IF_ERROR(binder.Vector("output_norm.weight", required, config.n_embd, &model->output_norm));
  SPILLWAY_RETURN_IF_ERROR(
      binder.Matrix("output.weight", optional, config.n_vocab, config.n_embd, &model->output));
  if (model->output == nullptr) model->output = model->token_embd;
  SPILLWAY_RETURN_IF_ERROR(
      binder.Vector("rope_freqs.weight", optional, config.layers[0].rope.n_rot / 2, &model->rope_freqs));
  if (model->rope_freqs != nullptr) SPILLWAY_RETURN_IF_ERROR(CheckRopeFactors(*model->rope_freqs));
  model->layers.resize(config.n_layer);
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    SPILLWAY_RETURN_IF_ERROR(
        BindLayer(architecture, i, config.layers[i], config.n_embd, binder, &model->layers[i]));
  }
  return binder.RefuseLeftOver();
}

}  // namespace spillway::model
