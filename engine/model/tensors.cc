// Tensor names → Model, every shape checked against the config. Knows no keys.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

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
    return CheckF32(**slot);
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

  // (n_expert, n_out, n_in contiguous), any format.
  absl::Status Slabs(const std::string& name, uint64_t n_expert, uint64_t n_out, uint64_t n_in,
                     const GgufTensor** slot) {
    SPILLWAY_RETURN_IF_ERROR(Take(name, Presence::kRequired, slot));
    if (*slot == nullptr) return absl::OkStatus();
    const auto& dims = (*slot)->dims;
    if (dims[0] != n_in || dims[1] != n_out || dims[2] != n_expert || dims[3] != 1) {
      return InvalidArgument("tensor {} has shape {}; the config asks for [{}, {}, {}]", name,
                             ShapeOf(**slot), n_in, n_out, n_expert);
    }
    return absl::OkStatus();
  }

  // (n, width), F32.
  absl::Status Vectors(const std::string& name, Presence presence, uint64_t n, uint64_t width,
                       const GgufTensor** slot) {
    SPILLWAY_RETURN_IF_ERROR(Matrix(name, presence, n, width, slot));
    return *slot == nullptr ? absl::OkStatus() : CheckF32(**slot);
  }

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

  // Of the draft's blocks nothing is used.
  absl::Status RefuseLeftOver(const ModelConfig& config) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      // Some old converters wrote the rotary frequencies of every layer; they repeat the keys.
      if (taken_.contains(&tensor) || tensor.name.ends_with("attn_rot_embd.weight")) continue;
      uint32_t block = 0;
      const bool in_block = std::sscanf(tensor.name.c_str(), "blk.%u.", &block) == 1;
      if (in_block && block >= config.n_layer && block - config.n_layer < config.n_draft_layer) continue;
      return Unimplemented(
          "tensor {} {} has no place in architecture {}; ignoring it would give wrong tokens", tensor.name,
          ShapeOf(tensor), architecture_);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckF32(const GgufTensor& tensor) {
    if (tensor.type == TensorType::kF32) return absl::OkStatus();
    return Unimplemented("tensor {} is {}; norms, biases and rope factors must be F32", tensor.name,
                         FormatOf(tensor.type).name);
  }

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

// Some rows of each of `n_slabs` equal slabs of a tensor.
struct Rows {
  std::string_view name;
  uint64_t begin = 0;
  uint64_t count = 0;
  uint64_t n_slabs = 1;
};

// The rows as a tensor of its own.
const GgufTensor* RowsOf(const GgufTensor& whole, const Rows& rows, Model* model) {
  GgufTensor part = whole;
  const uint64_t row_bytes = whole.bytes / whole.Rows();
  part.name = fmt::format("{}[{}]", whole.name, rows.name);
  part.n_dims = rows.n_slabs == 1 ? 2 : 3;
  part.dims = {whole.dims[0], rows.count, rows.n_slabs, 1};
  part.bytes = rows.n_slabs * rows.count * row_bytes;
  part.file_offset += rows.begin * row_bytes;
  part.data = {};
  for (uint64_t i = 0; i < rows.n_slabs && !whole.data.empty(); ++i) {
    part.slabs.push_back(whole.Slab(i, rows.n_slabs).subspan(rows.begin * row_bytes, rows.count * row_bytes));
  }
  if (rows.n_slabs == 1 && !part.slabs.empty()) part.data = std::exchange(part.slabs, {}).front();
  return &model->parts.emplace_back(std::move(part));
}

// Matrices of the same shape and format as the slabs of one tensor.
absl::StatusOr<const GgufTensor*> StackOf(std::string name, std::span<const GgufTensor* const> matrices,
                                          Model* model) {
  GgufTensor stack = *matrices[0];
  stack.name = std::move(name);
  stack.n_dims = 3;
  stack.dims[2] = matrices.size();
  stack.bytes *= matrices.size();
  stack.data = {};
  for (const GgufTensor* matrix : matrices) {
    if (matrix->type != stack.type) {
      return Unimplemented("tensor {} is {} and {} is {}; experts of a layer must have one format",
                           matrix->name, FormatOf(matrix->type).name, matrices[0]->name,
                           FormatOf(stack.type).name);
    }
    if (!matrix->data.empty()) stack.slabs.push_back(matrix->data);
  }
  return &model->parts.emplace_back(std::move(stack));
}

// Everything needed to bind one layer.
struct LayerBinding {
  const Architecture& architecture;
  const LayerSpec& spec;
  uint32_t index;
  uint64_t n_embd;
  Binder& binder;
  Model* model;
  LayerTensors* layer;

  std::string Name(std::string_view suffix) const { return fmt::format("blk.{}.{}", index, suffix); }
  absl::Status Vector(std::string_view suffix, Presence presence, uint64_t n, const GgufTensor** slot) const {
    return binder.Vector(Name(suffix), presence, n, slot);
  }
  absl::Status Matrix(std::string_view suffix, uint64_t n_out, uint64_t n_in, const GgufTensor** slot) const {
    return binder.Matrix(Name(suffix), Presence::kRequired, n_out, n_in, slot);
  }
  absl::Status Slabs(std::string_view suffix, uint64_t n, uint64_t n_out, uint64_t n_in,
                     const GgufTensor** slot) const {
    return binder.Slabs(Name(suffix), n, n_out, n_in, slot);
  }
};

absl::Status BindAttention(const LayerBinding& b) {
  const Architecture& architecture = b.architecture;
  const uint64_t n_q = uint64_t{b.spec.n_head} * b.spec.head_dim;
  const uint64_t n_kv = uint64_t{b.spec.n_head_kv} * b.spec.head_dim;
  const auto required = Presence::kRequired;
  const auto bias = architecture.qkv_bias;
  LayerTensors* layer = b.layer;

  SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_norm.weight", required, b.n_embd, &layer->attn_norm));
  if (architecture.fused) {
    const GgufTensor* whole = nullptr;
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_qkv.weight", n_q + 2 * n_kv, b.n_embd, &whole));
    layer->attn_q = RowsOf(*whole, {"q", 0, n_q}, b.model);
    layer->attn_k = RowsOf(*whole, {"k", n_q, n_kv}, b.model);
    layer->attn_v = RowsOf(*whole, {"v", n_q + n_kv, n_kv}, b.model);
  } else {
    const uint64_t gates = b.spec.output_gate ? n_q : 0;
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_q.weight", n_q + gates, b.n_embd, &layer->attn_q));
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_k.weight", n_kv, b.n_embd, &layer->attn_k));
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_v.weight", n_kv, b.n_embd, &layer->attn_v));
  }
  SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_output.weight", b.n_embd, n_q, &layer->attn_output));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_q.bias", bias, n_q, &layer->attn_q_bias));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_k.bias", bias, n_kv, &layer->attn_k_bias));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_v.bias", bias, n_kv, &layer->attn_v_bias));
  SPILLWAY_RETURN_IF_ERROR(
      b.Vector("attn_output.bias", architecture.output_bias, b.n_embd, &layer->attn_output_bias));
  const bool row = architecture.qk_norm == QkNorm::kRow;
  const bool weighed = row || architecture.qk_norm == QkNorm::kHead;
  const auto qk_norm = weighed ? architecture.qk_norm_weights : Presence::kAbsent;
  SPILLWAY_RETURN_IF_ERROR(
      b.Vector("attn_q_norm.weight", qk_norm, row ? n_q : b.spec.head_dim, &layer->attn_q_norm));
  SPILLWAY_RETURN_IF_ERROR(
      b.Vector("attn_k_norm.weight", qk_norm, row ? n_kv : b.spec.head_dim, &layer->attn_k_norm));
  SPILLWAY_RETURN_IF_ERROR(
      b.Vector("attn_sinks.weight", architecture.sinks, b.spec.n_head, &layer->attn_sinks));
  return b.Vector("post_attention_norm.weight", architecture.post_norms, b.n_embd, &layer->attn_post_norm);
}

// What keys and values of heads are made of: a tensor for each, or one with the rows of both, head by head.
absl::Status BindLatentHeads(const LayerBinding& b) {
  const LatentSpec& latent = b.spec.latent;
  const uint64_t n_head = b.spec.n_head;
  const uint64_t n_key = b.spec.head_dim - b.spec.rope.n_rot;
  const bool split = b.binder.Has(b.Name("attn_k_b.weight"));
  const GgufTensor* both = nullptr;
  SPILLWAY_RETURN_IF_ERROR(b.binder.Matrix(b.Name("attn_kv_b.weight"),
                                           split ? Presence::kOptional : Presence::kRequired,
                                           n_head * (n_key + latent.n_value), latent.n_latent, &both));
  if (split) {
    SPILLWAY_RETURN_IF_ERROR(b.Slabs("attn_k_b.weight", n_head, latent.n_latent, n_key, &b.layer->attn_k_b));
    return b.Slabs("attn_v_b.weight", n_head, latent.n_value, latent.n_latent, &b.layer->attn_v_b);
  }
  b.layer->attn_k_b_rows = RowsOf(*both, {"k", 0, n_key, n_head}, b.model);
  b.layer->attn_v_b = RowsOf(*both, {"v", n_key, latent.n_value, n_head}, b.model);
  return absl::OkStatus();
}

absl::Status BindLatent(const LayerBinding& b) {
  const LatentSpec& latent = b.spec.latent;
  const auto required = Presence::kRequired;
  const uint64_t n_q = uint64_t{b.spec.n_head} * b.spec.head_dim;
  LayerTensors* layer = b.layer;
  SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_norm.weight", required, b.n_embd, &layer->attn_norm));
  const uint64_t rank = latent.n_q_latent;
  if (rank == 0) {
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_q.weight", n_q, b.n_embd, &layer->attn_q));
  } else {
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_q_a.weight", rank, b.n_embd, &layer->attn_q_a));
    SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_q_a_norm.weight", required, rank, &layer->attn_q_a_norm));
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_q_b.weight", n_q, rank, &layer->attn_q_b));
  }
  SPILLWAY_RETURN_IF_ERROR(
      b.Matrix("attn_kv_a_mqa.weight", latent.n_latent + b.spec.rope.n_rot, b.n_embd, &layer->attn_kv_a));
  SPILLWAY_RETURN_IF_ERROR(
      b.Vector("attn_kv_a_norm.weight", required, latent.n_latent, &layer->attn_kv_a_norm));
  SPILLWAY_RETURN_IF_ERROR(BindLatentHeads(b));
  return b.Matrix("attn_output.weight", b.n_embd, uint64_t{b.spec.n_head} * latent.n_value,
                  &layer->attn_output);
}

absl::Status BindRecurrent(const LayerBinding& b) {
  const RecurrentSpec& spec = b.spec.recurrent;
  const auto required = Presence::kRequired;
  LayerTensors* layer = b.layer;
  SPILLWAY_RETURN_IF_ERROR(b.Vector("attn_norm.weight", required, b.n_embd, &layer->attn_norm));
  SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_qkv.weight", spec.Channels(), b.n_embd, &layer->ssm_qkv));
  SPILLWAY_RETURN_IF_ERROR(b.Matrix("attn_gate.weight", spec.Values(), b.n_embd, &layer->ssm_gate));
  if (b.architecture.hybrid == Hybrid::kConsecutive) {
    SPILLWAY_RETURN_IF_ERROR(
        b.Matrix("ssm_ba.weight", 2 * uint64_t{spec.n_head_v}, b.n_embd, &layer->ssm_beta_alpha));
  } else {
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("ssm_alpha.weight", spec.n_head_v, b.n_embd, &layer->ssm_alpha));
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("ssm_beta.weight", spec.n_head_v, b.n_embd, &layer->ssm_beta));
  }
  SPILLWAY_RETURN_IF_ERROR(b.binder.Vectors(b.Name("ssm_conv1d.weight"), required, spec.Channels(),
                                            spec.n_conv, &layer->ssm_conv));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("ssm_a", required, spec.n_head_v, &layer->ssm_a));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("ssm_dt.bias", required, spec.n_head_v, &layer->ssm_dt));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("ssm_norm.weight", required, spec.value_dim, &layer->ssm_norm));
  return b.Matrix("ssm_out.weight", b.n_embd, spec.Values(), &layer->ssm_out);
}

absl::Status BindMixer(const LayerBinding& b) {
  if (b.spec.Recurrent()) return BindRecurrent(b);
  return b.spec.Latent() ? BindLatent(b) : BindAttention(b);
}

absl::Status BindDense(const LayerBinding& b) {
  const uint64_t n_ff = b.spec.n_ff;
  LayerTensors* layer = b.layer;
  if (b.architecture.fused) {
    const GgufTensor* whole = nullptr;
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("ffn_up.weight", 2 * n_ff, b.n_embd, &whole));
    layer->ffn_gate = RowsOf(*whole, {"gate", 0, n_ff}, b.model);
    layer->ffn_up = RowsOf(*whole, {"up", n_ff, n_ff}, b.model);
  } else {
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("ffn_gate.weight", n_ff, b.n_embd, &layer->ffn_gate));
    SPILLWAY_RETURN_IF_ERROR(b.Matrix("ffn_up.weight", n_ff, b.n_embd, &layer->ffn_up));
  }
  return b.Matrix("ffn_down.weight", b.n_embd, n_ff, &layer->ffn_down);
}

// One tensor for each expert, as the first files of Mixtral have them.
absl::Status BindExpertByExpert(const LayerBinding& b) {
  const uint64_t n_ff = b.spec.experts.n_ff;
  struct Row {
    std::string_view name;
    uint64_t n_out, n_in;
    const GgufTensor** slot;
  };
  const Row rows[] = {{"ffn_gate", n_ff, b.n_embd, &b.layer->gate_experts},
                      {"ffn_up", n_ff, b.n_embd, &b.layer->up_experts},
                      {"ffn_down", b.n_embd, n_ff, &b.layer->down_experts}};
  for (const Row& row : rows) {
    std::vector<const GgufTensor*> experts(b.spec.experts.n_expert);
    for (size_t e = 0; e < experts.size(); ++e) {
      SPILLWAY_RETURN_IF_ERROR(
          b.Matrix(fmt::format("{}.{}.weight", row.name, e), row.n_out, row.n_in, &experts[e]));
    }
    SPILLWAY_ASSIGN_OR_RETURN(*row.slot, StackOf(b.Name(row.name), experts, b.model));
  }
  return absl::OkStatus();
}

// Matrices of the experts in one of three forms: a tensor each of gate, up and down; gate and up in one,
// expert by expert; a tensor of each expert.
absl::Status BindExpertMatrices(const LayerBinding& b) {
  const uint64_t n = b.spec.experts.n_expert;
  const uint64_t n_ff = b.spec.experts.n_ff;
  LayerTensors* layer = b.layer;
  if (b.binder.Has(b.Name("ffn_gate.0.weight"))) return BindExpertByExpert(b);
  SPILLWAY_RETURN_IF_ERROR(b.Slabs("ffn_down_exps.weight", n, b.n_embd, n_ff, &layer->down_experts));
  if (!b.binder.Has(b.Name("ffn_gate_up_exps.weight"))) {
    SPILLWAY_RETURN_IF_ERROR(b.Slabs("ffn_gate_exps.weight", n, n_ff, b.n_embd, &layer->gate_experts));
    return b.Slabs("ffn_up_exps.weight", n, n_ff, b.n_embd, &layer->up_experts);
  }
  const GgufTensor* whole = nullptr;
  SPILLWAY_RETURN_IF_ERROR(b.Slabs("ffn_gate_up_exps.weight", n, 2 * n_ff, b.n_embd, &whole));
  layer->gate_experts = RowsOf(*whole, {"gate", 0, n_ff, n}, b.model);
  layer->up_experts = RowsOf(*whole, {"up", n_ff, n_ff, n}, b.model);
  return absl::OkStatus();
}

absl::Status BindExperts(const LayerBinding& b) {
  const ExpertSpec& experts = b.spec.experts;
  const uint64_t n = experts.n_expert;
  const uint64_t n_ff = experts.n_ff;
  const Presence bias = b.architecture.experts.bias;
  const auto optional = Presence::kOptional;
  LayerTensors* layer = b.layer;
  const auto vectors = [&](std::string_view suffix, uint64_t width, const GgufTensor** slot) {
    return b.binder.Vectors(b.Name(suffix), bias, n, width, slot);
  };
  SPILLWAY_RETURN_IF_ERROR(b.Matrix("ffn_gate_inp.weight", n, b.n_embd, &layer->router));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("ffn_gate_inp.bias", bias, n, &layer->router_bias));
  SPILLWAY_RETURN_IF_ERROR(b.Vector("exp_probs_b.bias", optional, n, &layer->selection_bias));
  SPILLWAY_RETURN_IF_ERROR(BindExpertMatrices(b));
  SPILLWAY_RETURN_IF_ERROR(vectors("ffn_gate_exps.bias", n_ff, &layer->gate_expert_bias));
  SPILLWAY_RETURN_IF_ERROR(vectors("ffn_up_exps.bias", n_ff, &layer->up_expert_bias));
  SPILLWAY_RETURN_IF_ERROR(vectors("ffn_down_exps.bias", b.n_embd, &layer->down_expert_bias));
  const uint64_t shared = experts.n_ff_shared;
  if (shared == 0) return absl::OkStatus();
  SPILLWAY_RETURN_IF_ERROR(b.Vector("ffn_gate_inp_shexp.weight", optional, b.n_embd, &layer->shared_router));
  SPILLWAY_RETURN_IF_ERROR(b.Matrix("ffn_gate_shexp.weight", shared, b.n_embd, &layer->shared_gate));
  SPILLWAY_RETURN_IF_ERROR(b.Matrix("ffn_up_shexp.weight", shared, b.n_embd, &layer->shared_up));
  return b.Matrix("ffn_down_shexp.weight", b.n_embd, shared, &layer->shared_down);
}

absl::Status BindLayer(const LayerBinding& b) {
  SPILLWAY_RETURN_IF_ERROR(BindMixer(b));
  SPILLWAY_RETURN_IF_ERROR(
      b.Vector(b.architecture.ffn_norm, Presence::kRequired, b.n_embd, &b.layer->ffn_norm));
  SPILLWAY_RETURN_IF_ERROR(b.spec.experts.n_expert > 0 ? BindExperts(b) : BindDense(b));
  return b.Vector("post_ffw_norm.weight", b.architecture.post_norms, b.n_embd, &b.layer->ffn_post_norm);
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

// The ids that generation starts and ends with.
absl::Status CheckTokenIds(const GgufFile& file, uint32_t n_vocab) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> id, file.GetUint(key));
    if (!id || *id < n_vocab || *id == UINT32_MAX) continue;  // the last is how some converters write "none"
    return InvalidArgument("key {} is {}; the vocabulary has {} tokens", key, *id, n_vocab);
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
  return CheckTokenIds(*model->file, model->config.n_vocab);
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
  const uint64_t pairs = config.layers[0].rope.n_rot / 2;
  SPILLWAY_RETURN_IF_ERROR(binder.Vector("rope_freqs.weight", optional, pairs, &model->rope_freqs));
  if (model->rope_freqs == nullptr) {
    SPILLWAY_RETURN_IF_ERROR(binder.Vector("rope_factors_short.weight", optional, pairs, &model->rope_freqs));
    SPILLWAY_RETURN_IF_ERROR(
        binder.Vector("rope_factors_long.weight", optional, pairs, &model->rope_freqs_long));
  }
  for (const GgufTensor* factors : {model->rope_freqs, model->rope_freqs_long}) {
    if (factors != nullptr) SPILLWAY_RETURN_IF_ERROR(CheckRopeFactors(*factors));
  }
  model->layers.resize(config.n_layer);
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    SPILLWAY_RETURN_IF_ERROR(
        BindLayer({architecture, config.layers[i], i, config.n_embd, binder, model, &model->layers[i]}));
  }
  return binder.RefuseLeftOver(config);
}

}  // namespace spillway::model
