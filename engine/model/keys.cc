// Metadata keys → ModelConfig. Every value is bounded before it is used, so that later products fit in 64
// bits and no allocation can be provoked by a corrupt header. Knows no tensors.
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/base/status.h"
#include "engine/model/architecture.h"

namespace spillway::model {
namespace {

constexpr uint64_t kMaxLayers = 1000;
constexpr uint64_t kMaxHeads = 1024;
constexpr uint64_t kMaxHeadDim = 1024;
constexpr uint64_t kMaxEmbd = 1u << 18;
constexpr uint64_t kMaxFf = 1u << 22;
constexpr uint64_t kMaxContext = 1u << 30;

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

  // A value for each layer: from an array of n_layer entries, or one number for all. Empty when the key is
  // absent.
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
    if (!values || values->size() != n_layer) {
      return InvalidArgument("key {} has {} entries, but the model has {} layers", name,
                             values ? values->size() : 0, n_layer);
    }
    std::vector<uint32_t> result;
    for (const int64_t value : *values) {
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

// Keys that change the computation in ways LayerSpec does not describe; `neutral` is the value that changes
// nothing.
absl::Status RefuseUnknownMaths(const GgufFile& file, const Keys& keys) {
  struct Row {
    std::string_view suffix;
    double neutral;
  };
  static constexpr Row kRows[] = {
      {"expert_count", 0},
      {"logit_scale", 1},
      {"residual_scale", 1},
      {"embedding_scale", 1},
      {"attn_logit_softcapping", 0},
      {"attention.scale", 0},
      {"final_logit_softcapping", 0},
      {"attention.clamp_kqv", 0},
      {"attention.max_alibi_bias", 0},
      {"rope.scaling.attn_factor", 1},
  };
  for (const Row& row : kRows) {
    const std::string name = keys.Name(row.suffix);
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<double> value, file.GetFloat(name));
    // Zero means "unset" to every writer of these keys.
    if (value && *value != row.neutral && *value != 0.0) {
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

// A factor without a type means linear: files older than the type key wrote only the factor.
absl::StatusOr<float> ReadFreqScale(const GgufFile& file, const Keys& keys) {
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                            file.GetString(keys.Name("rope.scaling.type")));
  if (type && *type == "none") return 1.0f;
  if (type && *type != "linear") {
    return Unimplemented("key {} is '{}'; supported are: none, linear", keys.Name("rope.scaling.type"),
                         *type);
  }
  for (const std::string_view suffix : {"rope.scaling.factor", "rope.scale_linear"}) {
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<double> raw, file.GetFloat(keys.Name(suffix)));
    if (!raw || *raw == 0.0) continue;  // zero: not set
    SPILLWAY_ASSIGN_OR_RETURN(const std::optional<float> factor, keys.PositiveFloat(suffix));
    return 1.0f / *factor;
  }
  return 1.0f;
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

absl::StatusOr<RopeSpec> ReadRope(const GgufFile& file, const Keys& keys, RopeKind kind, uint32_t head_dim) {
  RopeSpec rope;
  rope.kind = kind;
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<uint64_t> n_rot, keys.Uint("rope.dimension_count", head_dim));
  rope.n_rot = static_cast<uint32_t>(n_rot.value_or(head_dim));
  if (rope.n_rot % 2 != 0) {
    return InvalidArgument("key {} (n_rot, {} when absent) is {}; it must be even",
                           keys.Name("rope.dimension_count"), head_dim, rope.n_rot);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<float> freq_base, keys.PositiveFloat("rope.freq_base"));
  rope.freq_base = freq_base.value_or(10000.0f);
  SPILLWAY_ASSIGN_OR_RETURN(rope.freq_scale, ReadFreqScale(file, keys));
  return rope;
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
  if (n_ff.empty()) return keys.Missing("feed_forward_length");

  LayerSpec layer;
  SPILLWAY_ASSIGN_OR_RETURN(layer.head_dim, ReadHeadDim(keys, config->n_embd, n_head[0]));
  SPILLWAY_ASSIGN_OR_RETURN(layer.rope, ReadRope(file, keys, architecture.rope, layer.head_dim));
  layer.norm_eps = config->norm_eps;
  layer.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.head_dim)));
  layer.qk_norm = architecture.qk_norm;
  for (uint32_t i = 0; i < n_layer; ++i) {
    if (n_head[i] % n_head_kv[i] != 0) {
      return InvalidArgument("layer {}: {} {} is not a multiple of {} {}", i,
                             keys.Name("attention.head_count"), n_head[i],
                             keys.Name("attention.head_count_kv"), n_head_kv[i]);
    }
    layer.n_head = n_head[i];
    layer.n_head_kv = n_head_kv[i];
    layer.n_ff = n_ff[i];
    config->layers.push_back(layer);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const Architecture& architecture) {
  const Keys keys(file, architecture.name);
  SPILLWAY_RETURN_IF_ERROR(RefuseUnknownMaths(file, keys));

  ModelConfig config;
  config.architecture = architecture.name;
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::string> name, file.GetString("general.name"));
  config.name = name && !name->empty() ? *name : std::filesystem::path(file.path()).stem().string();
  SPILLWAY_ASSIGN_OR_RETURN(config.n_layer, keys.RequiredUint("block_count", kMaxLayers));
  SPILLWAY_ASSIGN_OR_RETURN(config.n_embd, keys.RequiredUint("embedding_length", kMaxEmbd));
  SPILLWAY_ASSIGN_OR_RETURN(config.n_ctx_train, keys.RequiredUint("context_length", kMaxContext));
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<float> eps,
                            keys.PositiveFloat("attention.layer_norm_rms_epsilon"));
  if (!eps) return keys.Missing("attention.layer_norm_rms_epsilon");
  config.norm_eps = *eps;
  SPILLWAY_RETURN_IF_ERROR(ReadLayers(file, keys, architecture, &config));
  return config;
}

}  // namespace spillway::model
