// A model as data: what each layer computes and which tensors it computes it with. Architectures are rows of
// a table in architecture.cc; the forward passes (ref/, cpu/) read LayerSpec and never ask for a name.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
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

enum class Activation : uint8_t { kSilu, kGeluTanh };

struct RopeSpec {
  RopeKind kind = RopeKind::kNorm;
  uint32_t n_rot = 0;  // rotated dimensions of a head, even
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;  // linear scaling: 1 / factor
};

struct LayerSpec {
  uint32_t n_head = 0;
  uint32_t n_head_kv = 0;
  uint32_t head_dim = 0;
  uint32_t n_ff = 0;
  float norm_eps = 1e-5f;
  float attention_scale = 0.0f;  // multiplies q.k
  RopeSpec rope;
  bool qk_norm = false;  // RMSNorm of every q and k head before RoPE
  Activation activation = Activation::kSilu;
};

// Tensors of one layer; nullptr where the model has none. Matrices are (n_out rows, n_in contiguous).
struct LayerTensors {
  const GgufTensor* attn_norm = nullptr;    // (n_embd)
  const GgufTensor* attn_q = nullptr;       // (n_head * head_dim, n_embd)
  const GgufTensor* attn_k = nullptr;       // (n_head_kv * head_dim, n_embd)
  const GgufTensor* attn_v = nullptr;       // (n_head_kv * head_dim, n_embd)
  const GgufTensor* attn_output = nullptr;  // (n_embd, n_head * head_dim)
  const GgufTensor* attn_q_bias = nullptr;
  const GgufTensor* attn_k_bias = nullptr;
  const GgufTensor* attn_v_bias = nullptr;
  const GgufTensor* attn_output_bias = nullptr;
  const GgufTensor* attn_q_norm = nullptr;  // (head_dim)
  const GgufTensor* attn_k_norm = nullptr;  // (head_dim)
  const GgufTensor* ffn_norm = nullptr;     // (n_embd)
  const GgufTensor* ffn_gate = nullptr;     // (n_ff, n_embd)
  const GgufTensor* ffn_up = nullptr;       // (n_ff, n_embd)
  const GgufTensor* ffn_down = nullptr;     // (n_embd, n_ff)
};

struct ModelConfig {
  std::string architecture;  // general.architecture
  std::string name;          // general.name, or the file's stem
  uint32_t n_layer = 0;
  uint32_t n_embd = 0;
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;
  float norm_eps = 1e-5f;  // of the final norm
  std::vector<LayerSpec> layers;
};

// An opened model: the file, its config and its tensors, every shape checked. Immutable, shared by stages by
// reference.
struct Model {
  std::unique_ptr<GgufFile> file;
  ModelConfig config;
  const GgufTensor* token_embd = nullptr;   // (n_vocab, n_embd)
  const GgufTensor* output_norm = nullptr;  // (n_embd)
  const GgufTensor* output = nullptr;       // (n_vocab, n_embd); == token_embd when the head is tied
  const GgufTensor* rope_freqs = nullptr;   // (n_rot / 2) divisors of the frequencies, F32; optional
  std::vector<LayerTensors> layers;

  bool TiedHead() const { return output == token_embd; }
};

// Opens and checks a model. Unimplemented names an unknown architecture and lists the supported ones;
// InvalidArgument names a missing tensor or key, or a shape that does not fit.
absl::StatusOr<Model> LoadModel(const std::string& path);
// Same on a file already opened (takes it over).
absl::StatusOr<Model> LoadModel(std::unique_ptr<GgufFile> file);

// RoPE's angular frequency of each rotated pair, float64 then rounded once: (n_rot / 2) values of
// freq_scale * freq_base^(-2i/n_rot) / rope_freqs[i]. Source: Su et al., RoFormer; llama3 divisors from the
// file.
std::vector<float> RopeFrequencies(const Model& model, const LayerSpec& layer);

}  // namespace spillway
