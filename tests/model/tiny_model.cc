#include "tests/model/tiny_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <random>
#include <utility>

#include "engine/base/status.h"

namespace spillway::tiny {
namespace {

// Adds tensors with values drawn in file order from one generator.
class Maker {
 public:
  Maker(const TinyModelSpec& spec, GgufWriter* writer) : spec_(spec), writer_(*writer), random_(spec.seed) {}

  absl::Status Matrix(const std::string& name, uint64_t n_out, uint64_t n_in) {
    return Add(name, spec_.matrix_type, {n_in, n_out}, 0.0f, 1.0f / std::sqrt(static_cast<float>(n_in)));
  }
  absl::Status Vector(const std::string& name, uint64_t n, float mean) {
    return Add(name, TensorType::kF32, {n}, mean, 0.1f);
  }

 private:
  absl::Status Add(const std::string& name, TensorType type, std::vector<uint64_t> dims, float mean,
                   float deviation) {
    if (const auto change = spec_.reshape.find(name); change != spec_.reshape.end()) dims = change->second;
    if (dims.empty()) return absl::OkStatus();
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return writer_.AddTensorFromFloats(name, type, dims, values);
  }

  const TinyModelSpec& spec_;
  GgufWriter& writer_;
  std::mt19937 random_;
};

void SetKeys(const TinyModelSpec& spec, GgufWriter& writer) {
  const auto key = [&](std::string_view suffix) { return fmt::format("{}.{}", spec.architecture, suffix); };
  writer.SetString("general.architecture", spec.architecture);
  writer.SetString("general.name", "tiny");
  writer.SetU32(key("block_count"), spec.n_layer);
  writer.SetU32(key("context_length"), spec.n_ctx_train);
  writer.SetU32(key("embedding_length"), spec.n_embd);
  writer.SetU32(key("feed_forward_length"), spec.n_ff);
  writer.SetU32(key("attention.head_count"), spec.n_head);
  writer.SetU32(key("attention.head_count_kv"), spec.n_head_kv);
  writer.SetU32(key("attention.key_length"), spec.head_dim);
  writer.SetU32(key("attention.value_length"), spec.head_dim);
  writer.SetF32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  writer.SetF32(key("rope.freq_base"), 10000.0f);
}

absl::Status AddLayer(const TinyModelSpec& spec, uint32_t layer, Maker& maker) {
  const auto name = [&](std::string_view suffix) { return fmt::format("blk.{}.{}", layer, suffix); };
  const uint64_t n_q = uint64_t{spec.n_head} * spec.head_dim;
  const uint64_t n_kv = uint64_t{spec.n_head_kv} * spec.head_dim;
  SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_norm.weight"), spec.n_embd, 1.0f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(name("attn_q.weight"), n_q, spec.n_embd));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(name("attn_k.weight"), n_kv, spec.n_embd));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(name("attn_v.weight"), n_kv, spec.n_embd));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(name("attn_output.weight"), spec.n_embd, n_q));
  if (spec.qkv_bias) {
    SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_q.bias"), n_q, 0.0f));
    SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_k.bias"), n_kv, 0.0f));
    SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_v.bias"), n_kv, 0.0f));
  }
  if (spec.output_bias) SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_output.bias"), spec.n_embd, 0.0f));
  if (spec.qk_norm) {
    SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_q_norm.weight"), spec.head_dim, 1.0f));
    SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("attn_k_norm.weight"), spec.head_dim, 1.0f));
  }
  SPILLWAY_RETURN_IF_ERROR(maker.Vector(name("ffn_norm.weight"), spec.n_embd, 1.0f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(name("ffn_gate.weight"), spec.n_ff, spec.n_embd));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(name("ffn_up.weight"), spec.n_ff, spec.n_embd));
  return maker.Matrix(name("ffn_down.weight"), spec.n_embd, spec.n_ff);
}

}  // namespace

absl::StatusOr<GgufWriter> MakeTinyModel(const TinyModelSpec& spec) {
  GgufWriter writer;
  SetKeys(spec, writer);
  Maker maker(spec, &writer);
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix("token_embd.weight", spec.n_vocab, spec.n_embd));
  SPILLWAY_RETURN_IF_ERROR(maker.Vector("output_norm.weight", spec.n_embd, 1.0f));
  if (!spec.tied_head) SPILLWAY_RETURN_IF_ERROR(maker.Matrix("output.weight", spec.n_vocab, spec.n_embd));
  if (spec.rope_freqs) SPILLWAY_RETURN_IF_ERROR(maker.Vector("rope_freqs.weight", spec.head_dim / 2, 4.0f));
  for (uint32_t layer = 0; layer < spec.n_layer; ++layer) {
    SPILLWAY_RETURN_IF_ERROR(AddLayer(spec, layer, maker));
  }
  if (spec.edit) spec.edit(writer);
  return writer;
}

absl::Status WriteTinyModel(const TinyModelSpec& spec, const std::string& path) {
  SPILLWAY_ASSIGN_OR_RETURN(const GgufWriter writer, MakeTinyModel(spec));
  return writer.Write(path);
}

absl::StatusOr<Model> LoadTinyModel(const TinyModelSpec& spec) {
  static std::atomic<int> counter{0};
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("spillway-tiny-{}-{}.gguf", getpid(), counter.fetch_add(1));
  SPILLWAY_RETURN_IF_ERROR(WriteTinyModel(spec, path.string()));
  absl::StatusOr<Model> model = LoadModel(path.string());
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return model;
}

}  // namespace spillway::tiny
