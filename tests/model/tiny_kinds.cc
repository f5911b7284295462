#include "tests/model/tiny_kinds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/writer.h"

namespace spillway::tiny {
namespace {

constexpr uint64_t kEmbd = 64, kVocab = 48, kFf = 96, kExpertFf = 32, kExperts = 8, kHeads = 4;
// Of latent attention.
constexpr uint64_t kLatent = 96, kQLatent = 64, kKey = 32, kRot = 16, kValue = 64;
// Of ordinary attention.
constexpr uint64_t kHeadDim = 16, kKvHeads = 2;
constexpr uint32_t kLayers = 4;

using Floats = std::vector<float>;
using Dims = std::vector<uint64_t>;  // GGUF's order

constexpr TinyKind kKinds[] = {{"deepseek2-v3", ""},
                               {"deepseek2-v3-old", "deepseek2-v3"},
                               {"deepseek2-lite", ""},
                               {"deepseek2-lite-old", "deepseek2-lite"},
                               {"llama4", ""},
                               {"mixtral", ""},
                               {"mixtral-fused", "mixtral"},
                               {"mixtral-single", "mixtral"}};

// Writes one model; remembers the first error.
class Maker {
 public:
  Maker(std::string_view kind, TensorType matrices) : kind_(kind), matrices_(matrices) {}

  bool Is(std::string_view part) const { return kind_.find(part) != std::string_view::npos; }

  Floats Random(uint64_t count, float mean, float deviation) {
    std::normal_distribution<float> normal(mean, deviation);
    Floats values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  void Add(const std::string& name, TensorType type, const Dims& dims, const Floats& values) {
    if (status_.ok()) status_ = writer_.AddTensorFromFloats(name, type, dims, values);
  }
  void Matrix(const std::string& name, const Dims& dims) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    Add(name, matrices_, dims, Random(count, 0.0f, 1.5f / std::sqrt(static_cast<float>(dims[0]))));
  }
  void Vector(const std::string& name, uint64_t n, float mean) {
    Add(name, TensorType::kF32, {n}, Random(n, mean, 0.2f));
  }
  void Key(std::string_view suffix, uint32_t value) {
    writer_.SetU32(fmt::format("{}.{}", architecture_, suffix), value);
  }
  void Key(std::string_view suffix, float value) {
    writer_.SetF32(fmt::format("{}.{}", architecture_, suffix), value);
  }

  absl::StatusOr<GgufWriter> Make() {
    architecture_ = Is("deepseek2") ? "deepseek2" : Is("llama4") ? "llama4" : "llama";
    writer_.SetString("general.architecture", architecture_);
    Keys();
    Matrix("token_embd.weight", {kEmbd, kVocab});
    Vector("output_norm.weight", kEmbd, 1.0f);
    Matrix("output.weight", {kEmbd, kVocab});
    for (uint32_t i = 0; i < kLayers; ++i) {
      prefix_ = fmt::format("blk.{}.", i);
      Vector(prefix_ + "attn_norm.weight", kEmbd, 1.0f);
      Is("deepseek2") ? LatentAttention() : Attention();
      Vector(prefix_ + "ffn_norm.weight", kEmbd, 1.0f);
      const bool dense = (Is("deepseek2") && i == 0) || (Is("llama4") && i % 2 == 0);
      dense ? Dense() : Experts();
    }
    SPILLWAY_RETURN_IF_ERROR(status_);
    return std::move(writer_);
  }

 private:
  void Keys() {
    Key("block_count", kLayers);
    Key("context_length", 512u);
    Key("embedding_length", static_cast<uint32_t>(kEmbd));
    Key("feed_forward_length", static_cast<uint32_t>(kFf));
    Key("attention.head_count", static_cast<uint32_t>(kHeads));
    Key("attention.layer_norm_rms_epsilon", 1e-5f);
    Key("expert_count", static_cast<uint32_t>(kExperts));
    Key("expert_used_count", 2u);
    Key("expert_feed_forward_length", static_cast<uint32_t>(kExpertFf));
    if (Is("llama4")) {
      Key("interleave_moe_layer_step", 2u);
      Key("attention.sliding_window", 16u);
    }
    if (!Is("deepseek2")) {
      Key("attention.head_count_kv", static_cast<uint32_t>(kKvHeads));
      return Key("attention.key_length", static_cast<uint32_t>(kHeadDim));
    }
    Key("leading_dense_block_count", 1u);
    Key("expert_shared_count", 1u);
    Key("expert_weights_scale", 1.5f);
    Key("attention.kv_lora_rank", static_cast<uint32_t>(kLatent));
    Key("rope.dimension_count", static_cast<uint32_t>(kRot));
    const bool old = Is("-old");
    Key("attention.head_count_kv", old ? static_cast<uint32_t>(kHeads) : 1u);
    Key(old ? "attention.key_length" : "attention.key_length_mla", static_cast<uint32_t>(kKey + kRot));
    Key(old ? "attention.value_length" : "attention.value_length_mla", static_cast<uint32_t>(kValue));
    if (Is("lite")) {
      writer_.SetString("deepseek2.rope.scaling.type", "yarn");
      Key("rope.scaling.factor", 4.0f);
      Key("rope.scaling.original_context_length", 64u);
      Key("rope.scaling.yarn_log_multiplier", 0.0707f);
      return;
    }
    Key("attention.q_lora_rank", static_cast<uint32_t>(kQLatent));
    Key("expert_gating_func", 2u);
    Key("expert_group_count", 4u);
    Key("expert_group_used_count", 2u);
    writer_.SetBool("deepseek2.expert_weights_norm", true);
  }

  void Attention() {
    Matrix(prefix_ + "attn_q.weight", {kEmbd, kHeads * kHeadDim});
    Matrix(prefix_ + "attn_k.weight", {kEmbd, kKvHeads * kHeadDim});
    Matrix(prefix_ + "attn_v.weight", {kEmbd, kKvHeads * kHeadDim});
    Matrix(prefix_ + "attn_output.weight", {kHeads * kHeadDim, kEmbd});
  }

  void LatentAttention() {
    const uint64_t n_q = kHeads * (kKey + kRot);
    if (Is("lite")) {
      Matrix(prefix_ + "attn_q.weight", {kEmbd, n_q});
    } else {
      Matrix(prefix_ + "attn_q_a.weight", {kEmbd, kQLatent});
      Vector(prefix_ + "attn_q_a_norm.weight", kQLatent, 1.0f);
      Matrix(prefix_ + "attn_q_b.weight", {kQLatent, n_q});
    }
    Matrix(prefix_ + "attn_kv_a_mqa.weight", {kEmbd, kLatent + kRot});
    Vector(prefix_ + "attn_kv_a_norm.weight", kLatent, 1.0f);
    // (kHeads, kKey + kValue, kLatent), as older files have it.
    const Floats both = Random(kHeads * (kKey + kValue) * kLatent, 0.0f, 0.15f);
    if (Is("-old")) {
      Add(prefix_ + "attn_kv_b.weight", matrices_, {kLatent, kHeads * (kKey + kValue)}, both);
    } else {
      AddHeads(both);
    }
    Matrix(prefix_ + "attn_output.weight", {kHeads * kValue, kEmbd});
  }

  // The same in two tensors, that of the keys with each head transposed.
  void AddHeads(const Floats& both) {
    Floats k, v;
    for (uint64_t head = 0; head < kHeads; ++head) {
      const auto rows = both.begin() + static_cast<ptrdiff_t>(head * (kKey + kValue) * kLatent);
      for (uint64_t l = 0; l < kLatent; ++l) {
        for (uint64_t n = 0; n < kKey; ++n) k.push_back(rows[static_cast<ptrdiff_t>(n * kLatent + l)]);
      }
      v.insert(v.end(), rows + static_cast<ptrdiff_t>(kKey * kLatent),
               rows + static_cast<ptrdiff_t>((kKey + kValue) * kLatent));
    }
    Add(prefix_ + "attn_k_b.weight", matrices_, {kKey, kLatent, kHeads}, k);
    Add(prefix_ + "attn_v_b.weight", matrices_, {kLatent, kValue, kHeads}, v);
  }

  void Gated(std::string_view suffix, uint64_t n_ff) {
    Matrix(fmt::format("{}ffn_gate{}.weight", prefix_, suffix), {kEmbd, n_ff});
    Matrix(fmt::format("{}ffn_up{}.weight", prefix_, suffix), {kEmbd, n_ff});
    Matrix(fmt::format("{}ffn_down{}.weight", prefix_, suffix), {n_ff, kEmbd});
  }
  void Dense() { Gated("", kFf); }

  void Experts() {
    Add(prefix_ + "ffn_gate_inp.weight", TensorType::kF32, {kEmbd, kExperts},
        Random(kEmbd * kExperts, 0.0f, 0.5f));
    if (Is("deepseek2-v3")) Vector(prefix_ + "exp_probs_b.bias", kExperts, 0.0f);
    const uint64_t slab = kEmbd * kExpertFf;
    Floats gate = Random(kExperts * slab, 0.0f, 0.2f);
    Floats up = Random(kExperts * slab, 0.0f, 0.2f);
    const Floats down = Random(kExperts * slab, 0.0f, 0.3f);
    if (Is("-single")) {
      for (uint64_t e = 0; e < kExperts; ++e) {
        const auto part = [&](const Floats& all) {
          return Floats(all.begin() + static_cast<ptrdiff_t>(e * slab),
                        all.begin() + static_cast<ptrdiff_t>((e + 1) * slab));
        };
        Add(fmt::format("{}ffn_gate.{}.weight", prefix_, e), matrices_, {kEmbd, kExpertFf}, part(gate));
        Add(fmt::format("{}ffn_up.{}.weight", prefix_, e), matrices_, {kEmbd, kExpertFf}, part(up));
        Add(fmt::format("{}ffn_down.{}.weight", prefix_, e), matrices_, {kExpertFf, kEmbd}, part(down));
      }
      return;
    }
    if (Is("-fused")) {
      Floats fused;
      for (uint64_t e = 0; e < kExperts; ++e) {
        for (const Floats* all : {&gate, &up}) {
          const auto begin = all->begin() + static_cast<ptrdiff_t>(e * slab);
          fused.insert(fused.end(), begin, begin + static_cast<ptrdiff_t>(slab));
        }
      }
      Add(prefix_ + "ffn_gate_up_exps.weight", matrices_, {kEmbd, 2 * kExpertFf, kExperts}, fused);
    } else {
      Add(prefix_ + "ffn_gate_exps.weight", matrices_, {kEmbd, kExpertFf, kExperts}, gate);
      Add(prefix_ + "ffn_up_exps.weight", matrices_, {kEmbd, kExpertFf, kExperts}, up);
    }
    Add(prefix_ + "ffn_down_exps.weight", matrices_, {kExpertFf, kEmbd, kExperts}, down);
    if (Is("deepseek2") || Is("llama4")) Gated("_shexp", kExpertFf);
  }

  const std::string_view kind_;
  const TensorType matrices_;
  std::string architecture_;
  std::string prefix_;
  GgufWriter writer_;
  std::mt19937 random_{11};
  absl::Status status_;
};

}  // namespace

std::span<const TinyKind> TinyKinds() { return kKinds; }

absl::StatusOr<Model> LoadTinyKind(std::string_view name, TensorType matrices) {
  static std::atomic<int> counter{0};
  SPILLWAY_ASSIGN_OR_RETURN(const GgufWriter writer, Maker(name, matrices).Make());
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("spillway-kind-{}-{}.gguf", getpid(), counter.fetch_add(1));
  SPILLWAY_RETURN_IF_ERROR(writer.Write(path.string()));
  absl::StatusOr<Model> model = LoadModel(path.string());
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return model;
}

}  // namespace spillway::tiny
