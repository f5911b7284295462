// A model as data: what each layer computes and which tensors it computes it with. Architectures are rows of
// a table in architecture.cc; the forward passes (ref/, cpu/) read LayerSpec and never ask for a name.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf/reader.h"

namespace spillway {

enum class RopeKind : uint8_t {
  kNone,
  kNorm,  // rotates adjacent pairs (2i, 2i+1)
  kNeox,  // rotates halves (i, i + n_rot/2)
};

// How gate and up meet. kSwigluClamped: g = min(gate, 7), u = clamp(up, -7, 7), g * sigmoid(1.702 g) * (u +
// 1) (gpt-oss).
enum class Activation : uint8_t { kSilu, kGeluTanh, kSwigluClamped };

enum class QkNorm : uint8_t {
  kNone,
  kHead,       // RMSNorm of every head of q and k, before RoPE
  kRow,        // of the whole row, before it is split into heads
  kAfterRope,  // of every head, without weights
};

// YaRN (Peng et al.): high frequencies stay, low ones are interpolated, with a ramp between two corrections.
struct YarnSpec {
  uint32_t n_ctx_orig = 0;  // 0: no YaRN
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
};

struct RopeSpec {
  RopeKind kind = RopeKind::kNorm;
  uint32_t n_rot = 0;  // rotated dimensions of a head, even
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;  // 1 / factor: of every frequency, or YaRN's interpolation
  YarnSpec yarn = {};
  float magnitude = 1.0f;      // multiplies cos and sin
  uint32_t long_from_ctx = 0;  // longrope: contexts longer than this take rope_factors_long; 0: no longrope
};

// Mixture of experts: which experts a row visits and how their outputs are weighed.
enum class ExpertGating : uint8_t {
  kSoftmax,          // probabilities over all experts
  kSigmoid,          // each expert by itself
  kSoftmaxOfChosen,  // over the chosen logits only
};

struct ExpertSpec {
  uint32_t n_expert = 0;  // 0: a dense layer
  uint32_t n_used = 0;
  uint32_t n_ff = 0;         // of one expert
  uint32_t n_ff_shared = 0;  // of the expert that every row visits; 0: none
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalize = false;  // divide the chosen weights by their sum
  float scale = 1.0f;        // multiplies them
  uint32_t n_group = 1;      // experts are chosen within the n_group_used groups whose two best sum highest
  uint32_t n_group_used = 1;
  bool weigh_input = false;  // the weight multiplies what the expert reads, not what it gives
};

// Multi-head latent attention (DeepSeek-V2): a position is cached as a latent, which every head's keys and
// values are products of, and one rotated part of rope.n_rot values that all heads share. A head's query is
// head_dim - n_rot dimensions, then n_rot rotated ones.
struct LatentSpec {
  uint32_t n_latent = 0;    // 0: keys and values of heads are cached
  uint32_t n_q_latent = 0;  // of the normed latent that queries are made from; 0: from the row itself
  uint32_t n_value = 0;     // dimensions of a head's value
};

// Gated DeltaNet (Yang et al.): a short causal convolution of q, k and v, then for each value head a matrix S
// that forgets and learns one row after another; no cache. Its state is the last inputs of the convolution
// and every S.
struct RecurrentSpec {
  uint32_t n_conv = 0;     // taps of the convolution, the row's own included; 0: attention
  uint32_t n_head_k = 0;   // heads of q and k
  uint32_t n_head_v = 0;   // a multiple of it
  uint32_t key_dim = 0;    // of a head; a multiple of 16, as value_dim
  uint32_t value_dim = 0;  // of a head
  bool consecutive =
      false;  // a key head's value heads follow each other; else value head j has key head j % n_head_k

  uint32_t Keys() const { return n_head_k * key_dim; }
  uint32_t Values() const { return n_head_v * value_dim; }
  // What is convolved: q, k, v.
  uint32_t Channels() const { return 2 * Keys() + Values(); }
  // The value head number `i` of n_head_v / n_head_k that a key head has.
  uint32_t ValueHead(uint32_t key_head, uint32_t i) const {
    return consecutive ? key_head * (n_head_v / n_head_k) + i : i * n_head_k + key_head;
  }
  // Numbers that a sequence's state is: (n_conv - 1, Channels), then (n_head_v, key_dim, value_dim).
  uint64_t ConvState() const { return uint64_t{n_conv - 1} * Channels(); }
  uint64_t State() const { return n_conv == 0 ? 0 : ConvState() + uint64_t{Values()} * key_dim; }
};

struct LayerSpec {
  uint32_t n_head = 0;  // of attention, as all that follows up to the activation; 0 in a recurrent layer
  uint32_t n_head_kv = 0;
  uint32_t head_dim = 0;
  uint32_t n_ff = 0;  // of a dense layer
  float norm_eps = 1e-5f;
  float attention_scale = 0.0f;    // multiplies q.k
  float attention_softcap = 0.0f;  // c: scores become c * tanh(score / c); 0: none
  uint32_t window = 0;             // a row sees its last `window` positions, itself included; 0: all
  uint32_t chunk = 0;              // a row sees positions from the last multiple of `chunk` on; 0: all
  // q * (1 + temperature_scale * ln(1 + floor((position + temperature_offset) / temperature_length))); 0:
  // none
  float temperature_scale = 0.0f;
  uint32_t temperature_length = 0;
  uint32_t temperature_offset = 0;
  float residual_scale = 1.0f;  // multiplies what each block adds
  RopeSpec rope;
  QkNorm qk_norm = QkNorm::kNone;
  Activation activation = Activation::kSilu;
  ExpertSpec experts;
  LatentSpec latent;
  RecurrentSpec recurrent;
  // attn_q holds a gate beside each head's query; its sigmoid multiplies what the head gives.
  bool output_gate = false;

  bool Recurrent() const { return recurrent.n_conv > 0; }
  bool Latent() const { return latent.n_latent > 0; }
  // What the scores of a head are products over, and how many heads of those the cache holds.
  uint32_t KeyDim() const { return Latent() ? latent.n_latent + rope.n_rot : head_dim; }
  uint32_t KeyHeads() const { return Latent() ? 1 : n_head_kv; }
  // What a head's weighted sum has; a latent layer's is of the first dimensions of its keys.
  uint32_t ValueDim() const { return Latent() ? latent.n_latent : head_dim; }
  // What a head gives to the output's product.
  uint32_t OutputDim() const { return Latent() ? latent.n_value : head_dim; }
  // The first position that the row at `position` sees.
  uint32_t FirstVisible(uint32_t position) const {
    if (chunk > 0) return position / chunk * chunk;
    return window == 0 ? 0 : std::max(position + 1, window) - window;
  }
  // What the query at `position` is multiplied by besides the scale.
  double Temperature(uint32_t position) const;
};

// Tensors of one layer; nullptr where the model has none. Matrices are (n_out rows, n_in contiguous).
struct LayerTensors {
  const GgufTensor* attn_norm = nullptr;    // (n_embd)
  const GgufTensor* attn_q = nullptr;       // (n_head * head_dim, n_embd); with gates (n_head, 2, head_dim)
  const GgufTensor* attn_k = nullptr;       // (n_head_kv * head_dim, n_embd)
  const GgufTensor* attn_v = nullptr;       // (n_head_kv * head_dim, n_embd)
  const GgufTensor* attn_output = nullptr;  // (n_embd, n_head * OutputDim())
  const GgufTensor* attn_q_bias = nullptr;
  const GgufTensor* attn_k_bias = nullptr;
  const GgufTensor* attn_v_bias = nullptr;
  const GgufTensor* attn_output_bias = nullptr;
  const GgufTensor* attn_q_norm = nullptr;  // (head_dim), or the whole row
  const GgufTensor* attn_k_norm = nullptr;  // (head_dim), or the whole row
  // Of a latent layer, whose attn_q is absent where queries have a latent of their own.
  const GgufTensor* attn_q_a = nullptr;        // (n_q_latent, n_embd)
  const GgufTensor* attn_q_a_norm = nullptr;   // (n_q_latent)
  const GgufTensor* attn_q_b = nullptr;        // (n_head * head_dim, n_q_latent)
  const GgufTensor* attn_kv_a = nullptr;       // (n_latent + n_rot, n_embd)
  const GgufTensor* attn_kv_a_norm = nullptr;  // (n_latent)
  const GgufTensor* attn_k_b = nullptr;        // (n_head, n_latent, head_dim - n_rot), or
  const GgufTensor* attn_k_b_rows = nullptr;   // its slabs transposed, as older files have them
  const GgufTensor* attn_v_b = nullptr;        // (n_head, n_value, n_latent)
  const GgufTensor* attn_sinks = nullptr;      // (n_head): one more logit of each head, without a value
  const GgufTensor* attn_post_norm = nullptr;  // (n_embd): of the block's output, before it is added
  // Of a recurrent layer, all of them, but for alpha and beta: each by itself or both in one.
  const GgufTensor* ssm_qkv = nullptr;         // (Channels, n_embd)
  const GgufTensor* ssm_gate = nullptr;        // (Values, n_embd)
  const GgufTensor* ssm_alpha = nullptr;       // (n_head_v, n_embd)
  const GgufTensor* ssm_beta = nullptr;        // (n_head_v, n_embd)
  const GgufTensor* ssm_beta_alpha = nullptr;  // (n_head_k, 2, n_head_v / n_head_k, n_embd)
  const GgufTensor* ssm_conv = nullptr;        // (Channels, n_conv)
  const GgufTensor* ssm_a = nullptr;           // (n_head_v)
  const GgufTensor* ssm_dt = nullptr;          // (n_head_v)
  const GgufTensor* ssm_norm = nullptr;        // (value_dim)
  const GgufTensor* ssm_out = nullptr;         // (n_embd, Values)
  const GgufTensor* ffn_norm = nullptr;        // (n_embd)
  const GgufTensor* ffn_gate = nullptr;        // (n_ff, n_embd)
  const GgufTensor* ffn_up = nullptr;          // (n_ff, n_embd)
  const GgufTensor* ffn_down = nullptr;        // (n_embd, n_ff)
  const GgufTensor* ffn_post_norm = nullptr;   // (n_embd)

  const GgufTensor* router = nullptr;            // (n_expert, n_embd)
  const GgufTensor* router_bias = nullptr;       // (n_expert): added to the logits
  const GgufTensor* selection_bias = nullptr;    // (n_expert): added for choosing only
  const GgufTensor* gate_experts = nullptr;      // (n_expert, n_ff, n_embd)
  const GgufTensor* up_experts = nullptr;        // (n_expert, n_ff, n_embd)
  const GgufTensor* down_experts = nullptr;      // (n_expert, n_embd, n_ff)
  const GgufTensor* gate_expert_bias = nullptr;  // (n_expert, n_ff)
  const GgufTensor* up_expert_bias = nullptr;    // (n_expert, n_ff)
  const GgufTensor* down_expert_bias = nullptr;  // (n_expert, n_embd)
  const GgufTensor* shared_router = nullptr;     // (n_embd): sigmoid of its product weighs the shared expert
  const GgufTensor* shared_gate = nullptr;       // (n_ff_shared, n_embd)
  const GgufTensor* shared_up = nullptr;         // (n_ff_shared, n_embd)
  const GgufTensor* shared_down = nullptr;       // (n_embd, n_ff_shared)
};

struct ModelConfig {
  std::string architecture;  // general.architecture
  std::string name;          // the file's name without .gguf and a shard's number: what users call it
  std::string title;         // general.name, only for information; may be empty
  uint32_t n_layer = 0;
  uint32_t n_draft_layer = 0;  // blocks after the layers that only draft tokens: not loaded
  uint32_t n_embd = 0;
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;
  float norm_eps = 1e-5f;        // of the final norm
  float embedding_scale = 1.0f;  // multiplies the embeddings
  float logit_scale = 1.0f;      // multiplies the logits
  float logit_softcap = 0.0f;    // c: logits become c * tanh(logit / c); 0: none
  std::vector<LayerSpec> layers;
};

// Whether one of the layers [begin, end) is recurrent.
bool HasRecurrent(const ModelConfig& config, uint32_t begin, uint32_t end);

// An opened model: the file, its config and its tensors, every shape checked. Immutable, shared by stages by
// reference.
struct Model {
  std::unique_ptr<GgufFile> file;
  ModelConfig config;
  const GgufTensor* token_embd = nullptr;   // (n_vocab, n_embd)
  const GgufTensor* output_norm = nullptr;  // (n_embd)
  const GgufTensor* output = nullptr;       // (n_vocab, n_embd); == token_embd when the head is tied
  // (n_rot / 2) divisors of the frequencies, F32; optional. Of longrope: for short and for long contexts.
  const GgufTensor* rope_freqs = nullptr;
  const GgufTensor* rope_freqs_long = nullptr;
  std::vector<LayerTensors> layers;
  std::deque<GgufTensor> parts;  // cut from the file's tensors or put together from them

  bool TiedHead() const { return output == token_embd; }
};

// Opens and checks a model. Unimplemented names an unknown architecture and lists the supported ones;
// InvalidArgument names a missing tensor or key, or a shape that does not fit.
absl::StatusOr<Model> LoadModel(const std::string& path);
// Same on a file already opened (takes it over).
absl::StatusOr<Model> LoadModel(std::unique_ptr<GgufFile> file);

// RoPE's angular frequency of each rotated pair, float64 then rounded once: (n_rot / 2) values of
// freq_scale * freq_base^(-2i/n_rot) / rope_freqs[i], by YaRN's ramp where the layer has it. n_ctx: tokens a
// sequence may have, which chooses between longrope's factors. Source: Su et al., RoFormer; Peng et al.,
// YaRN; llama3 and longrope divisors from the file.
std::vector<float> RopeFrequencies(const Model& model, const LayerSpec& layer, uint32_t n_ctx);

}  // namespace spillway
