// The table of architectures: what varies between them, as data. A row is all it takes to support an
// architecture whose forward pass LayerSpec can describe. Private to engine/model: backends never see an
// architecture.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/model/config.h"

namespace spillway::model {

enum class Presence : uint8_t { kAbsent, kOptional, kRequired };

// What routers of an architecture do when the keys do not say.
struct ExpertDefaults {
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalize = true;
  bool weigh_input = false;
  bool shared_as_one = false;         // a shared expert of an expert's size, which no key tells
  Presence bias = Presence::kAbsent;  // of the router and of every expert's matrices
};

// Which layers are recurrent (Gated DeltaNet), if any: all but the last of each period, unless a key says it.
// Their attention layers have output gates.
enum class Hybrid : uint8_t {
  kNone,
  kInterleaved,  // value heads of a key head stand n_head_k apart; alpha and beta are tensors of their own
  kConsecutive,  // they follow each other; alpha and beta are one tensor
};

struct Architecture {
  std::string_view name;  // general.architecture, and the prefix of its keys
  RopeKind rope = RopeKind::kNorm;
  Presence qkv_bias = Presence::kAbsent;
  Presence output_bias = Presence::kAbsent;
  QkNorm qk_norm = QkNorm::kNone;
  Presence qk_norm_weights = Presence::kRequired;  // where qk_norm is not kNone
  Presence sinks = Presence::kAbsent;
  Presence post_norms = Presence::kAbsent;  // of both blocks' outputs
  std::string_view ffn_norm = "ffn_norm.weight";
  bool fused = false;  // attn_qkv; ffn_up holds gate, then up
  Activation activation = Activation::kSilu;
  uint32_t window_period = 0;   // every layer but the last of each period has the window
  uint32_t default_window = 0;  // where no key tells; 0: none
  bool chunked = false;         // the window is a chunk
  bool rope_swa = false;        // windowed layers have a base of their own, unscaled
  uint32_t no_rope_period = 0;  // the last layer of each period has no RoPE
  bool latent = false;
  Hybrid hybrid = Hybrid::kNone;
  // Of layers without RoPE, where no key tells.
  float temperature_scale = 0.0f;
  uint32_t temperature_length = 0, temperature_offset = 0;
  uint32_t unnormed_experts = 0;      // models of that many experts have no qk_norm
  bool sqrt_embedding_scale = false;  // embeddings * sqrt(n_embd)
  bool scales = false;                // granite's four scales, as keys
  float attention_softcap = 0.0f;     // where the key is absent; 0: the key is refused
  float logit_softcap = 0.0f;
  uint32_t wide_scale_layers = 0;  // models of that many layers scale q.k by 1 / sqrt(n_embd / n_head)
  ExpertDefaults experts = {};
};

// Unimplemented, listing the supported ones, when `name` is not in the table.
absl::StatusOr<const Architecture*> FindArchitecture(std::string_view name);

// Reads and checks every key; n_vocab stays 0 (it is the embedding's row count).
absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const Architecture& architecture);

// Finds and checks every tensor of `model` (file and config set) and sets n_vocab. Unimplemented when the
// file holds a tensor that nothing would use: ignoring it would give wrong tokens.
absl::Status BindTensors(const Architecture& architecture, Model* model);

}  // namespace spillway::model
