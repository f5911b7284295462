// Rows of the table of architectures.
#include "engine/model/architecture.h"

#include <fmt/ranges.h>

#include <vector>

#include "engine/base/status.h"

namespace spillway::model {
namespace {

constexpr Presence kOptional = Presence::kOptional;
constexpr Presence kRequired = Presence::kRequired;

// llama's converter permutes q and k so that rotated pairs are adjacent; most others keep halves.
constexpr Architecture kArchitectures[] = {
    {.name = "llama", .qkv_bias = kOptional, .output_bias = kOptional},  // with experts: Mixtral
    {.name = "mistral3", .qkv_bias = kOptional, .output_bias = kOptional},
    {.name = "smollm3", .no_rope_period = 4},
    {.name = "granite", .qkv_bias = kOptional, .output_bias = kOptional, .scales = true},
    {.name = "granitemoe", .qkv_bias = kOptional, .output_bias = kOptional, .scales = true},
    {.name = "qwen2", .rope = RopeKind::kNeox, .qkv_bias = kRequired, .output_bias = kOptional},
    {.name = "qwen2moe",
     .rope = RopeKind::kNeox,
     .qkv_bias = kRequired,
     .output_bias = kOptional,
     .experts = {.renormalize = false}},
    {.name = "qwen3", .rope = RopeKind::kNeox, .qk_norm = QkNorm::kHead},
    {.name = "qwen3moe", .rope = RopeKind::kNeox, .qk_norm = QkNorm::kHead},
    {.name = "olmoe", .rope = RopeKind::kNeox, .qk_norm = QkNorm::kRow, .experts = {.renormalize = false}},
    {.name = "gemma2",
     .rope = RopeKind::kNeox,
     .post_norms = kRequired,
     .activation = Activation::kGeluTanh,
     .window_period = 2,
     .default_window = 4096,
     .sqrt_embedding_scale = true,
     .attention_softcap = 50.0f,
     .logit_softcap = 30.0f,
     .wide_scale_layers = 46},
    {.name = "gemma3",
     .rope = RopeKind::kNeox,
     .qk_norm = QkNorm::kHead,
     .post_norms = kRequired,
     .activation = Activation::kGeluTanh,
     .window_period = 6,
     .rope_swa = true,
     .sqrt_embedding_scale = true,
     .wide_scale_layers = 62},
    {.name = "phi3", .rope = RopeKind::kNeox, .fused = true},
    {.name = "gpt-oss",
     .rope = RopeKind::kNeox,
     .qkv_bias = kRequired,
     .output_bias = kRequired,
     .sinks = kRequired,
     .ffn_norm = "post_attention_norm.weight",
     .activation = Activation::kSwigluClamped,
     .window_period = 2,
     .experts = {.gating = ExpertGating::kSoftmaxOfChosen, .renormalize = false, .bias = kRequired}},
    {.name = "glm4moe",
     .rope = RopeKind::kNeox,
     .qkv_bias = kOptional,
     .qk_norm = QkNorm::kHead,
     .qk_norm_weights = kOptional,
     .ffn_norm = "post_attention_norm.weight",
     .experts = {.gating = ExpertGating::kSigmoid}},
    {.name = "qwen3next",
     .rope = RopeKind::kNeox,
     .qk_norm = QkNorm::kHead,
     .ffn_norm = "post_attention_norm.weight",
     .hybrid = Hybrid::kConsecutive},
    {.name = "qwen35",
     .rope = RopeKind::kNeox,
     .qk_norm = QkNorm::kHead,
     .ffn_norm = "post_attention_norm.weight",
     .hybrid = Hybrid::kInterleaved},
    {.name = "qwen35moe",
     .rope = RopeKind::kNeox,
     .qk_norm = QkNorm::kHead,
     .ffn_norm = "post_attention_norm.weight",
     .hybrid = Hybrid::kInterleaved},
    {.name = "deepseek2", .latent = true, .experts = {.renormalize = false}},
    {.name = "llama4",
     .qkv_bias = kOptional,
     .output_bias = kOptional,
     .qk_norm = QkNorm::kAfterRope,
     .window_period = 4,
     .default_window = 8192,
     .chunked = true,
     .no_rope_period = 4,
     .temperature_scale = 0.1f,
     .temperature_length = 8192,
     .temperature_offset = 1,
     .unnormed_experts = 128,
     .experts = {.gating = ExpertGating::kSigmoid,
                 .renormalize = false,
                 .weigh_input = true,
                 .shared_as_one = true}},
};

}  // namespace

absl::StatusOr<const Architecture*> FindArchitecture(std::string_view name) {
  std::vector<std::string_view> supported;
  for (const Architecture& row : kArchitectures) {
    if (row.name == name) return &row;
    supported.push_back(row.name);
  }
  return Unimplemented("general.architecture '{}' is not supported; supported are: {}", name,
                       fmt::join(supported, ", "));
}

}  // namespace spillway::model
