// Metadata keys → ModelConfig. Every value is bounded before it is used, so that later products fit in 64
// bits and no allocation can be provoked by a corrupt header. Knows no tensors.
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/base/status.h"
#include "engine/gguf/shards.h"
#include "engine/model/architecture.h"

namespace spillway::model {
namespace {

constexpr uint64_t kMaxLayers = 1000;
constexpr uint64_t kMaxHeads = 1024;
constexpr uint64_t kMaxHeadDim = 1024;
constexpr uint64_t kMaxLatent = 4096;
constexpr uint64_t kMaxEmbd = 1u << 18;
constexpr uint64_t kMaxFf = 1u << 22;
constexpr uint64_t kMaxContext = 1u << 30;
constexpr uint64_t kMaxExperts = 1024;
constexpr uint64_t kMaxConv = 8;  // taps

// Keys of one architecture, `ARCHITECTURE.SUFFIX`, with their limits.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  std::string Name(std::string_view suffix) const { return fmt::format("{}.{}", architecture_, suffix); }

  absl::StatusOr<std::optional<uint64_t>> Uint(std::string_view suffix, uint64_t maximum) const {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, file_.GetUint(Name(suffix)));
    if (value) SPILLWAY_RETURN_IF_ERROR(CheckRange(suffix, *value, maximum));
    return value;
  }

  absl::StatusOr<uint32_t> RequiredUint(std::string_view suffix, uint64_t maximum) const {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, Uint(suffix, maximum));
    if (!value) return Missing(suffix);
    return static_cast<uint32_t>(*value);
  }

  // A value for each layer: from an array (draft blocks may follow), or one number for all. Empty when the
  // key is absent.
  absl::StatusOr<std::vector<uint32_t>> PerLayer(std::string_view suffix, uint32_t n_layer,
                                                 uint64_t maximum) const {
    const std::string name = Name(suffix);
    const auto entry = file_.metadata().find(name);
    if (entry == file_.metadata().end()) return std::vector<uint32_t>{};
    if (!std::holds_alternative<GgufValue::Array>(entry->second.value)) {
      SPILLWAY_ASSIGN_OR_RETURN(const uint32_t value, RequiredUint(suffix, maximum));
      return std::vector<uint32_t>(n_layer, value);
    }
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> values, file_.GetInts(name));
    if (!values || values->size() < n_layer) {
      return InvalidArgument("key {} has {} entries, but the model has {} layers", name,
                             values ? values->size() : 0, n_layer);
    }
    std::vector<uint32_t> result;
    for (const int64_t value : std::span(*values).first(n_layer)) {
      SPILLWAY_RETURN_IF_ERROR(CheckRange(suffix, value < 0 ? 0 : static_cast<uint64_t>(value), maximum));
      result.push_back(static_cast<uint32_t>(value));
    }
    return result;
  }

  // Positive and finite as float32.
  absl::StatusOr<std::optional<float>> PositiveFloat(std::string_view suffix) const {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<double> value, file_.GetFloat(Name(suffix)));
    if (!value) return std::optional<float>();
    const float narrow = static_cast<float>(*value);
    if (!std::isfinite(narrow) || !(narrow > 0.0f)) {
      return InvalidArgument("key {} is {}; it must be a positive finite number", Name(suffix), *value);
    }
    return std::optional<float>(narrow);
  }

  // As PositiveFloat, but zero means "not set", as it does to the writers of these keys.
  absl::StatusOr<float> FloatOr(std::string_view suffix, float otherwise) const {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<double> raw, file_.GetFloat(Name(suffix)));
    if (!raw || *raw == 0.0) return otherwise;
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<float> value, PositiveFloat(suffix));
    return *value;
  }

  // Zero or absent: not set.
  absl::StatusOr<uint32_t> UintOr(std::string_view suffix, uint64_t maximum, uint32_t otherwise) const {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, file_.GetUint(Name(suffix)));
    if (!value || *value == 0) return otherwise;
    SPILLWAY_RETURN_IF_ERROR(CheckRange(suffix, *value, maximum));
    return static_cast<uint32_t>(*value);
  }

  absl::Status Missing(std::string_view suffix) const {
    return InvalidArgument("key {} is missing; architecture {} needs it", Name(suffix), architecture_);
  }

 private:
  absl::Status CheckRange(std::string_view suffix, uint64_t value, uint64_t maximum) const {
    if (value >= 1 && value <= maximum) return absl::OkStatus();
    return InvalidArgument("key {} is {}; it must be in [1, {}]", Name(suffix), value, maximum);
  }

  const GgufFile& file_;
  const std::string_view architecture_;
};

// Keys that change the computation in ways the architecture's row does not ask for; `neutral` is the value
// that changes nothing.
absl::Status RefuseUnknownMaths(const GgufFile& file, const Keys& keys, const Architecture& architecture) {
  struct Row {
    std::string_view suffix;
    double neutral;
    bool known;
  };
  const Row rows[] = {
      {"logit_scale", 1, architecture.scales},
      {"residual_scale", 1, architecture.scales},
      {"embedding_scale", 1, architecture.scales},
      {"attention.scale", 0, architecture.scales},
      {"attn_logit_softcapping", 0, architecture.attention_softcap != 0.0f},
      {"final_logit_softcapping", 0, architecture.logit_softcap != 0.0f},
      {"attention.clamp_kqv", 0, false},
      {"attention.max_alibi_bias", 0, false},
  };
  for (const Row& row : rows) {
    const std::string name = keys.Name(row.suffix);
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<double> value, file.GetFloat(name));
    // Zero means "unset" to every writer of these keys.
    if (!row.known && value && *value != row.neutral && *value != 0.0) {
      return Unimplemented("key {} is {}; that is not supported yet", name, *value);
    }
  }
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<bool> causal, file.GetBool(keys.Name("attention.causal")));
  if (causal && !*causal) {
    return Unimplemented("key {} is false; only causal attention is supported",
                         keys.Name("attention.causal"));
  }
  return absl::OkStatus();
}

// The factor that YaRN puts on cos and sin: 1 + 0.1 ln(factor), unless the file says that it is folded into
// the attention scale (yarn_log_multiplier, DeepSeek's mscale_all_dim).
float YarnMagnitude(double factor, double log_multiplier) {
  const auto mscale = [&](double m) { return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  return static_cast<float>(log_multiplier == 0.0 ? mscale(1.0) : mscale(1.0) / mscale(log_multiplier));
}

// A factor without a type means linear: files older than the type key wrote only the factor.
absl::Status ReadScaling(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                         uint32_t n_ctx_train, RopeSpec* rope) {
  const std::string type_key = keys.Name("rope.scaling.type");
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::string> type, file.GetString(type_key));
  SPILLWAY_ASSIGN_OR_RETURN(const float attention_factor, keys.FloatOr("rope.scaling.attn_factor", 1.0f));
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t n_ctx_orig,
                            keys.UintOr("rope.scaling.original_context_length", kMaxContext, n_ctx_train));
  rope->magnitude = attention_factor;
  rope->long_from_ctx = n_ctx_orig;  // counts where the file has the factors' tensors, whatever the type says
  if (type && *type == "none") return absl::OkStatus();
  const bool yarn = type && *type == "yarn";
  if (type && !yarn && *type != "linear" && *type != "longrope" && *type != "su") {
    return Unimplemented("key {} is '{}'; supported are: none, linear, yarn, longrope", type_key, *type);
  }
  float factor = 1.0f;
  for (const std::string_view suffix : {"rope.scale_linear", "rope.scaling.factor"}) {
    SPILLWAY_ASSIGN_OR_RETURN(factor, keys.FloatOr(suffix, factor));
  }
  if (type && (*type == "longrope" || *type == "su")) return absl::OkStatus();
  rope->freq_scale = 1.0f / factor;
  if (!yarn) return absl::OkStatus();
  rope->yarn.n_ctx_orig = n_ctx_orig;
  SPILLWAY_ASSIGN_OR_RETURN(rope->yarn.beta_fast, keys.FloatOr("rope.scaling.yarn_beta_fast", 32.0f));
  SPILLWAY_ASSIGN_OR_RETURN(rope->yarn.beta_slow, keys.FloatOr("rope.scaling.yarn_beta_slow", 1.0f));
  SPILLWAY_ASSIGN_OR_RETURN(const float log_multiplier,
                            keys.FloatOr("rope.scaling.yarn_log_multiplier", 0.0f));
  // Latent attention has the multiplier in its scale instead (ReadLatent).
  if (!architecture.latent || log_multiplier == 0.0f)
    rope->magnitude *= YarnMagnitude(factor, log_multiplier);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ReadHeadDim(const Keys& keys, uint32_t n_embd, uint32_t n_head) {
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> key_length,
                            keys.Uint("attention.key_length", kMaxHeadDim));
  if (!key_length && n_embd % n_head != 0) {
    return InvalidArgument("key {} is missing, and {} {} is not a multiple of {} {}",
                           keys.Name("attention.key_length"), keys.Name("embedding_length"), n_embd,
                           keys.Name("attention.head_count"), n_head);
  }
  const uint64_t head_dim = key_length.value_or(n_embd / n_head);
  if (head_dim == 0 || head_dim > kMaxHeadDim) {
    return InvalidArgument("head_dim is {} ({} {} / {} {}); it must be in [1, {}]", head_dim,
                           keys.Name("embedding_length"), n_embd, keys.Name("attention.head_count"), n_head,
                           kMaxHeadDim);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> value_length,
                            keys.Uint("attention.value_length", kMaxHeadDim));
  if (value_length && *value_length != head_dim) {
    return Unimplemented("key {} is {}, but a head has {} key dimensions; different sizes are not supported",
                         keys.Name("attention.value_length"), *value_length, head_dim);
  }
  return static_cast<uint32_t>(head_dim);
}

absl::StatusOr<RopeSpec> ReadRope(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                                  uint32_t head_dim, uint32_t n_ctx_train) {
  RopeSpec rope;
  rope.kind = architecture.rope;
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> n_rot, keys.Uint("rope.dimension_count", head_dim));
  rope.n_rot = static_cast<uint32_t>(n_rot.value_or(head_dim));
  if (rope.n_rot % 2 != 0) {
    return InvalidArgument("key {} (n_rot, {} when absent) is {}; it must be even",
                           keys.Name("rope.dimension_count"), head_dim, rope.n_rot);
  }
  SPILLWAY_ASSIGN_OR_RETURN(rope.freq_base, keys.FloatOr("rope.freq_base", 10000.0f));
  SPILLWAY_RETURN_IF_ERROR(ReadScaling(file, keys, architecture, n_ctx_train, &rope));
  return rope;
}

// Latent attention: head_dim, RoPE, and a scale with YaRN's (1 + multiplier * ln(factor))^2. Files of the
// absorbed form tell a head's sizes in keys of their own, and the cache's in the usual ones.
absl::Status ReadLatent(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                        uint32_t n_ctx_train, LayerSpec* layer) {
  SPILLWAY_ASSIGN_OR_RETURN(layer->latent.n_latent, keys.RequiredUint("attention.kv_lora_rank", kMaxLatent));
  SPILLWAY_ASSIGN_OR_RETURN(layer->latent.n_q_latent, keys.UintOr("attention.q_lora_rank", kMaxEmbd, 0));
  const auto size = [&](std::string_view own, std::string_view usual) -> absl::StatusOr<uint32_t> {
    SPILLWAY_ASSIGN_OR_RETURN(const uint32_t value, keys.UintOr(own, kMaxHeadDim, 0));
    return value != 0 ? absl::StatusOr<uint32_t>(value) : keys.RequiredUint(usual, kMaxHeadDim);
  };
  SPILLWAY_ASSIGN_OR_RETURN(layer->head_dim, size("attention.key_length_mla", "attention.key_length"));
  SPILLWAY_ASSIGN_OR_RETURN(layer->latent.n_value,
                            size("attention.value_length_mla", "attention.value_length"));
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t n_rot, keys.RequiredUint("rope.dimension_count", kMaxHeadDim));
  if (n_rot >= layer->head_dim) {
    return InvalidArgument("key {} is {}; a head has {} dimensions, of which some must not rotate",
                           keys.Name("rope.dimension_count"), n_rot, layer->head_dim);
  }
  SPILLWAY_ASSIGN_OR_RETURN(layer->rope, ReadRope(file, keys, architecture, layer->head_dim, n_ctx_train));
  SPILLWAY_ASSIGN_OR_RETURN(const double multiplier, keys.FloatOr("rope.scaling.yarn_log_multiplier", 0.0f));
  const double grown =
      layer->rope.yarn.n_ctx_orig == 0 ? 1.0 : 1.0 - multiplier * std::log(layer->rope.freq_scale);
  layer->attention_scale =
      static_cast<float>(grown * grown / std::sqrt(static_cast<double>(layer->head_dim)));
  return absl::OkStatus();
}

// Sizes, RoPE and scale of ordinary attention.
absl::Status ReadHeads(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                       const ModelConfig& config, uint32_t n_head, LayerSpec* layer) {
  SPILLWAY_ASSIGN_OR_RETURN(layer->head_dim, ReadHeadDim(keys, config.n_embd, n_head));
  SPILLWAY_ASSIGN_OR_RETURN(layer->rope,
                            ReadRope(file, keys, architecture, layer->head_dim, config.n_ctx_train));
  const bool wide = config.n_layer == architecture.wide_scale_layers;
  const double dim = wide ? static_cast<double>(config.n_embd) / n_head : layer->head_dim;
  layer->attention_scale = static_cast<float>(1.0 / std::sqrt(dim));
  return absl::OkStatus();
}

// Routers and experts; n_expert 0 where the model is dense.
absl::StatusOr<ExpertSpec> ReadExperts(const GgufFile& file, const Keys& keys,
                                       const Architecture& architecture, uint32_t n_ff) {
  ExpertSpec experts;
  SPILLWAY_ASSIGN_OR_RETURN(experts.n_expert, keys.UintOr("expert_count", kMaxExperts, 0));
  if (experts.n_expert == 0) return experts;
  SPILLWAY_ASSIGN_OR_RETURN(experts.n_used, keys.RequiredUint("expert_used_count", experts.n_expert));
  SPILLWAY_ASSIGN_OR_RETURN(experts.n_ff, keys.UintOr("expert_feed_forward_length", kMaxFf, n_ff));
  if (experts.n_ff == 0) return keys.Missing("expert_feed_forward_length");
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t n_shared, keys.UintOr("expert_shared_count", kMaxExperts, 0));
  const uint32_t n_ff_shared = (architecture.experts.shared_as_one ? 1 : n_shared) * experts.n_ff;
  SPILLWAY_ASSIGN_OR_RETURN(experts.n_ff_shared,
                            keys.UintOr("expert_shared_feed_forward_length", kMaxFf, n_ff_shared));
  experts.weigh_input = architecture.experts.weigh_input;
  SPILLWAY_ASSIGN_OR_RETURN(experts.scale, keys.FloatOr("expert_weights_scale", 1.0f));
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<bool> renormalize,
                            file.GetBool(keys.Name("expert_weights_norm")));
  experts.renormalize = renormalize.value_or(architecture.experts.renormalize);
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t gating, keys.UintOr("expert_gating_func", 3, 0));
  static constexpr ExpertGating kGatings[] = {ExpertGating::kSoftmax, ExpertGating::kSigmoid,
                                              ExpertGating::kSoftmaxOfChosen};
  experts.gating = gating == 0 ? architecture.experts.gating : kGatings[gating - 1];
  SPILLWAY_ASSIGN_OR_RETURN(experts.n_group, keys.UintOr("expert_group_count", experts.n_expert, 1));
  SPILLWAY_ASSIGN_OR_RETURN(experts.n_group_used,
                            keys.UintOr("expert_group_used_count", experts.n_group, experts.n_group));
  if (experts.n_expert % experts.n_group != 0 ||
      experts.n_used > experts.n_expert / experts.n_group * experts.n_group_used) {
    return InvalidArgument("{} {} in {} groups, of which {} are used, cannot give {} experts a row",
                           keys.Name("expert_count"), experts.n_expert, experts.n_group, experts.n_group_used,
                           experts.n_used);
  }
  return experts;
}

// What the recurrent layers are like, and which they are.
struct Recurrence {
  RecurrentSpec spec;
  std::vector<bool> layers;  // empty: none
};

absl::Status CheckRecurrence(const Keys& keys, const RecurrentSpec& spec, uint32_t inner) {
  if (spec.n_head_v % spec.n_head_k != 0 || inner % spec.n_head_v != 0) {
    return InvalidArgument("{} {} must be a multiple of {} {} and divide {} {}",
                           keys.Name("ssm.time_step_rank"), spec.n_head_v, keys.Name("ssm.group_count"),
                           spec.n_head_k, keys.Name("ssm.inner_size"), inner);
  }
  if (spec.n_conv < 2) {
    return InvalidArgument("key {} is {}; a convolution has at least 2 taps", keys.Name("ssm.conv_kernel"),
                           spec.n_conv);
  }
  if (spec.key_dim % 16 != 0 || spec.value_dim % 16 != 0) {
    return Unimplemented("keys {} and {} give heads of {} and {} dimensions; multiples of 16 are supported",
                         keys.Name("ssm.state_size"), keys.Name("ssm.inner_size"), spec.key_dim,
                         spec.value_dim);
  }
  return absl::OkStatus();
}

absl::StatusOr<Recurrence> ReadRecurrence(const GgufFile& file, const Keys& keys,
                                          const Architecture& architecture, uint32_t n_layer) {
  Recurrence recurrence;
  if (architecture.hybrid == Hybrid::kNone) return recurrence;
  RecurrentSpec& spec = recurrence.spec;
  SPILLWAY_ASSIGN_OR_RETURN(spec.n_conv, keys.RequiredUint("ssm.conv_kernel", kMaxConv));
  SPILLWAY_ASSIGN_OR_RETURN(spec.key_dim, keys.RequiredUint("ssm.state_size", kMaxHeadDim));
  SPILLWAY_ASSIGN_OR_RETURN(spec.n_head_k, keys.RequiredUint("ssm.group_count", kMaxHeads));
  SPILLWAY_ASSIGN_OR_RETURN(spec.n_head_v, keys.RequiredUint("ssm.time_step_rank", kMaxHeads));
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t inner, keys.RequiredUint("ssm.inner_size", kMaxEmbd));
  spec.value_dim = inner / spec.n_head_v;
  spec.consecutive = architecture.hybrid == Hybrid::kConsecutive;
  SPILLWAY_RETURN_IF_ERROR(CheckRecurrence(keys, spec, inner));

  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t period, keys.UintOr("full_attention_interval", kMaxLayers, 4));
  const std::string key = keys.Name("attention.recurrent_layers");
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> listed, file.GetInts(key));
  if (listed && listed->size() < n_layer) {
    return InvalidArgument("key {} has {} entries, but the model has {} layers", key, listed->size(),
                           n_layer);
  }
  for (uint32_t i = 0; i < n_layer; ++i) {
    recurrence.layers.push_back(listed ? (*listed)[i] != 0 : (i + 1) % period != 0);
  }
  return recurrence;
}

// What all layers share, from keys; `layer` has n_head[0] for the default of head_dim.
absl::StatusOr<LayerSpec> ReadCommon(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                                     const ModelConfig& config, uint32_t n_head) {
  LayerSpec layer;
  SPILLWAY_RETURN_IF_ERROR(architecture.latent
                               ? ReadLatent(file, keys, architecture, config.n_ctx_train, &layer)
                               : ReadHeads(file, keys, architecture, config, n_head, &layer));
  layer.norm_eps = config.norm_eps;
  layer.qk_norm = architecture.qk_norm;
  layer.activation = architecture.activation;
  layer.output_gate = architecture.hybrid != Hybrid::kNone;
  if (architecture.scales) {
    SPILLWAY_ASSIGN_OR_RETURN(layer.attention_scale, keys.FloatOr("attention.scale", layer.attention_scale));
    SPILLWAY_ASSIGN_OR_RETURN(layer.residual_scale, keys.FloatOr("residual_scale", 1.0f));
  }
  if (architecture.attention_softcap != 0.0f) {
    SPILLWAY_ASSIGN_OR_RETURN(layer.attention_softcap,
                              keys.FloatOr("attn_logit_softcapping", architecture.attention_softcap));
  }
  SPILLWAY_ASSIGN_OR_RETURN(layer.temperature_scale, keys.FloatOr("attention.temperature_scale", 0.0f));
  if (layer.temperature_scale != 0.0f) {
    SPILLWAY_ASSIGN_OR_RETURN(layer.temperature_length, keys.UintOr("attention.temperature_length",
                                                                    kMaxContext, layer.rope.long_from_ctx));
    if (layer.temperature_length == 0) return keys.Missing("attention.temperature_length");
  }
  return layer;
}

// Of a layer without RoPE: no norm after it, and the architecture's temperature.
void Unrotate(const Architecture& architecture, LayerSpec* layer) {
  layer->rope.kind = RopeKind::kNone;
  if (layer->qk_norm == QkNorm::kAfterRope) layer->qk_norm = QkNorm::kNone;
  if (architecture.temperature_scale == 0.0f) return;
  layer->temperature_scale = architecture.temperature_scale;
  layer->temperature_length = architecture.temperature_length;
  layer->temperature_offset = architecture.temperature_offset;
}

// Which layers see only a window, and RoPE of theirs.
absl::Status SetWindows(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                        ModelConfig* config) {
  if (architecture.window_period == 0) return absl::OkStatus();
  const std::string window_key = keys.Name("attention.sliding_window");
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> given, file.GetUint(window_key));
  if (given == 0u && architecture.chunked) {
    return Unimplemented("key {} is 0; {} without chunks is not supported", window_key, architecture.name);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t window, keys.UintOr("attention.sliding_window", kMaxContext,
                                                               given ? 0 : architecture.default_window));
  if (window == 0) return absl::OkStatus();
  // A number is the period; an array says it layer by layer.
  const std::string key = keys.Name("attention.sliding_window_pattern");
  const auto entry = file.metadata().find(key);
  uint32_t period = architecture.window_period;
  std::vector<int64_t> pattern;
  if (entry != file.metadata().end() && std::holds_alternative<GgufValue::Array>(entry->second.value)) {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> values, file.GetInts(key));
    if (!values || values->size() < config->n_layer) {
      return InvalidArgument("key {} has {} entries, but the model has {} layers", key,
                             values ? values->size() : 0, config->n_layer);
    }
    pattern = *values;
  } else {
    SPILLWAY_ASSIGN_OR_RETURN(period, keys.UintOr("attention.sliding_window_pattern", kMaxLayers, period));
  }
  SPILLWAY_ASSIGN_OR_RETURN(const float swa_base, keys.FloatOr("rope.freq_base_swa", 10000.0f));
  for (uint32_t i = 0; i < config->n_layer; ++i) {
    const bool windowed = pattern.empty() ? i % period != period - 1 : pattern[i] != 0;
    if (!windowed) continue;
    LayerSpec& layer = config->layers[i];
    (architecture.chunked ? layer.chunk : layer.window) = window;
    if (!architecture.rope_swa) continue;
    layer.rope.freq_base = swa_base;
    layer.rope.freq_scale = 1.0f;
  }
  return absl::OkStatus();
}

absl::Status ReadLayers(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                        ModelConfig* config) {
  const uint32_t n_layer = config->n_layer;
  SPILLWAY_ASSIGN_OR_RETURN(const std::vector<uint32_t> n_head,
                            keys.PerLayer("attention.head_count", n_layer, kMaxHeads));
  if (n_head.empty()) return keys.Missing("attention.head_count");
  SPILLWAY_ASSIGN_OR_RETURN(std::vector<uint32_t> n_head_kv,
                            keys.PerLayer("attention.head_count_kv", n_layer, kMaxHeads));
  if (n_head_kv.empty()) n_head_kv = n_head;
  SPILLWAY_ASSIGN_OR_RETURN(const std::vector<uint32_t> n_ff,
                            keys.PerLayer("feed_forward_length", n_layer, kMaxFf));
  SPILLWAY_ASSIGN_OR_RETURN(const ExpertSpec experts,
                            ReadExperts(file, keys, architecture, n_ff.empty() ? 0 : n_ff[0]));
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t n_dense, keys.UintOr("leading_dense_block_count", kMaxLayers,
                                                                experts.n_expert == 0 ? n_layer : 0));
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t expert_step,
                            keys.UintOr("interleave_moe_layer_step", kMaxLayers, 1));
  if (n_ff.empty() && (n_dense > 0 || expert_step > 1)) return keys.Missing("feed_forward_length");
  SPILLWAY_ASSIGN_OR_RETURN(const LayerSpec common, ReadCommon(file, keys, architecture, *config, n_head[0]));
  SPILLWAY_ASSIGN_OR_RETURN(const Recurrence recurrence, ReadRecurrence(file, keys, architecture, n_layer));
  for (uint32_t i = 0; i < n_layer; ++i) {
    if (!common.Latent() && n_head[i] % n_head_kv[i] != 0) {
      return InvalidArgument("layer {}: {} {} is not a multiple of {} {}", i,
                             keys.Name("attention.head_count"), n_head[i],
                             keys.Name("attention.head_count_kv"), n_head_kv[i]);
    }
    const bool dense = i < n_dense || (i + 1) % expert_step != 0;
    LayerSpec& layer = config->layers.emplace_back(common);
    layer.n_head = n_head[i];
    layer.n_head_kv = common.Latent() ? 1 : n_head_kv[i];
    layer.n_ff = dense ? n_ff[i] : 0;
    layer.experts = dense ? ExpertSpec() : experts;
    if (experts.n_expert > 0 && experts.n_expert == architecture.unnormed_experts) {
      layer.qk_norm = QkNorm::kNone;
    }
    if (architecture.no_rope_period != 0 && (i + 1) % architecture.no_rope_period == 0)
      Unrotate(architecture, &layer);
    if (recurrence.layers.empty() || !recurrence.layers[i]) continue;
    layer.recurrent = recurrence.spec;
    layer.n_head = layer.n_head_kv = layer.head_dim = 0;
    layer.output_gate = false;
  }
  return SetWindows(file, keys, architecture, config);
}

// Of the whole model: embeddings and logits.
absl::Status ReadScales(const Keys& keys, const Architecture& architecture, ModelConfig* config) {
  if (architecture.sqrt_embedding_scale) {
    config->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config->n_embd)));
  }
  if (architecture.scales) {
    SPILLWAY_ASSIGN_OR_RETURN(config->embedding_scale, keys.FloatOr("embedding_scale", 1.0f));
    SPILLWAY_ASSIGN_OR_RETURN(const float divisor, keys.FloatOr("logit_scale", 1.0f));
    config->logit_scale = 1.0f / divisor;
  }
  if (architecture.logit_softcap != 0.0f) {
    SPILLWAY_ASSIGN_OR_RETURN(config->logit_softcap,
                              keys.FloatOr("final_logit_softcapping", architecture.logit_softcap));
  }
  return absl::OkStatus();
}

std::string NameOfFile(const std::string& path) {
  const std::optional<ShardName> shard = ParseShardName(path);
  const std::filesystem::path file(shard ? shard->prefix : path);
  return file.extension() == ".gguf" ? file.stem().string() : file.filename().string();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const Architecture& architecture) {
  const Keys keys(file, architecture.name);
  SPILLWAY_RETURN_IF_ERROR(RefuseUnknownMaths(file, keys, architecture));

  ModelConfig config;
  config.architecture = architecture.name;
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::string> title, file.GetString("general.name"));
  config.title = title.value_or("");
  config.name = NameOfFile(file.path());
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t n_block, keys.RequiredUint("block_count", kMaxLayers));
  // The last blocks may be a draft head: they are not layers of the model.
  SPILLWAY_ASSIGN_OR_RETURN(config.n_draft_layer, keys.UintOr("nextn_predict_layers", n_block - 1, 0));
  config.n_layer = n_block - config.n_draft_layer;
  SPILLWAY_ASSIGN_OR_RETURN(config.n_embd, keys.RequiredUint("embedding_length", kMaxEmbd));
  SPILLWAY_ASSIGN_OR_RETURN(config.n_ctx_train, keys.RequiredUint("context_length", kMaxContext));
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<float> eps,
                            keys.PositiveFloat("attention.layer_norm_rms_epsilon"));
  if (!eps) return keys.Missing("attention.layer_norm_rms_epsilon");
  config.norm_eps = *eps;
  SPILLWAY_RETURN_IF_ERROR(ReadLayers(file, keys, architecture, &config));
  SPILLWAY_RETURN_IF_ERROR(ReadScales(keys, architecture, &config));
  return config;
}

}  // namespace spillway::model
