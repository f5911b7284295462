// LoadModel: what a good file gives, and that every broken one is refused with an error that names the tensor
// or key and what is wrong with it.
#include "engine/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/base/status.h"
#include "tests/model/tiny_kinds.h"
#include "tests/model/tiny_model.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tiny::LoadTinyModel;
using tiny::TinyModelSpec;

TEST(LoadModel, ReadsConfigAndTensorsOfLlama) {
  const auto model = LoadTinyModel({});
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  const ModelConfig& config = model->config;
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.title, "tiny");
  EXPECT_THAT(config.name, testing::StartsWith("spillway-tiny-"));  // the file's
  EXPECT_EQ(config.n_layer, 3u);
  EXPECT_EQ(config.n_embd, 64u);
  EXPECT_EQ(config.n_vocab, 48u);
  EXPECT_EQ(config.n_ctx_train, 512u);
  ASSERT_EQ(config.layers.size(), 3u);
  const LayerSpec& layer = config.layers[2];
  EXPECT_EQ(layer.n_head, 4u);
  EXPECT_EQ(layer.n_head_kv, 2u);
  EXPECT_EQ(layer.head_dim, 16u);
  EXPECT_EQ(layer.n_ff, 96u);
  EXPECT_EQ(layer.attention_scale, 0.25f);
  EXPECT_EQ(layer.rope.kind, RopeKind::kNorm);
  EXPECT_EQ(layer.rope.n_rot, 16u);
  EXPECT_FALSE(model->TiedHead());
  EXPECT_EQ(model->rope_freqs, nullptr);
  EXPECT_EQ(model->layers[1].ffn_down->name, "blk.1.ffn_down.weight");
  EXPECT_EQ(model->layers[1].attn_q_bias, nullptr);
}

TEST(LoadModel, SharesTheEmbeddingWithATiedHead) {
  TinyModelSpec spec;
  spec.tied_head = true;
  const auto model = LoadTinyModel(spec);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  EXPECT_TRUE(model->TiedHead());
}

TEST(LoadModel, TakesArchitecturesAsRowsOfATable) {
  TinyModelSpec qwen2;
  qwen2.architecture = "qwen2";
  qwen2.qkv_bias = true;
  const auto with_bias = LoadTinyModel(qwen2);
  ASSERT_TRUE(with_bias.ok()) << MessageOf(with_bias.status());
  EXPECT_EQ(with_bias->config.layers[0].rope.kind, RopeKind::kNeox);
  EXPECT_NE(with_bias->layers[0].attn_v_bias, nullptr);

  TinyModelSpec qwen3;
  qwen3.architecture = "qwen3";
  qwen3.qk_norm = true;
  const auto with_norm = LoadTinyModel(qwen3);
  ASSERT_TRUE(with_norm.ok()) << MessageOf(with_norm.status());
  EXPECT_EQ(with_norm->config.layers[0].qk_norm, QkNorm::kHead);
  EXPECT_NE(with_norm->layers[2].attn_k_norm, nullptr);
}

TEST(LoadModel, TakesHeadsAndFeedForwardPerLayer) {
  TinyModelSpec spec;
  spec.reshape["blk.1.ffn_gate.weight"] = {64, 32};
  spec.reshape["blk.1.ffn_up.weight"] = {64, 32};
  spec.reshape["blk.1.ffn_down.weight"] = {32, 64};
  spec.reshape["blk.2.attn_k.weight"] = {64, 64};
  spec.reshape["blk.2.attn_v.weight"] = {64, 64};
  spec.edit = [](GgufWriter& writer) {
    writer.SetU32s("llama.feed_forward_length", std::vector<uint32_t>{96, 32, 96});
    writer.SetI32s("llama.attention.head_count_kv", std::vector<int32_t>{2, 2, 4});
  };
  const auto model = LoadTinyModel(spec);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  EXPECT_EQ(model->config.layers[1].n_ff, 32u);
  EXPECT_EQ(model->config.layers[2].n_head_kv, 4u);
}

TEST(LoadModel, TakesMorePerLayerValuesThanLayersWhereDraftBlocksFollow) {
  TinyModelSpec spec;
  spec.edit = [](GgufWriter& writer) {
    writer.SetU32("llama.nextn_predict_layers", 1);
    writer.SetU32s("llama.attention.head_count", std::vector<uint32_t>{4, 4, 4});
  };
  const auto model = LoadTinyModel(spec);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  EXPECT_EQ(model->config.n_layer, 2u);
  EXPECT_EQ(model->config.n_draft_layer, 1u);
}

TEST(LoadModel, ReadsLatentAttentionFromBothFormsOfFile) {
  for (const char* kind : {"deepseek2-v3", "deepseek2-v3-old", "deepseek2-lite", "deepseek2-lite-old"}) {
    SCOPED_TRACE(kind);
    const auto model = tiny::LoadTinyKind(kind);
    ASSERT_TRUE(model.ok()) << MessageOf(model.status());
    const LayerSpec& layer = model->config.layers[3];
    EXPECT_EQ(layer.KeyDim(), 96u + 16u);
    EXPECT_EQ(layer.KeyHeads(), 1u);
    EXPECT_EQ(layer.ValueDim(), 96u);
    EXPECT_EQ(layer.OutputDim(), 64u);
    const bool v3 = std::string_view(kind).find("v3") != std::string_view::npos;
    EXPECT_EQ(layer.latent.n_q_latent, v3 ? 64u : 0u);
    EXPECT_EQ(layer.experts.renormalize, v3);
    // YaRN's multiplier is in the scale, squared, and not in cos and sin.
    const double grown = v3 ? 1.0 : 1.0 + 0.0707 * std::log(4.0);
    EXPECT_NEAR(layer.attention_scale, grown * grown / std::sqrt(48.0), 1e-6);
    EXPECT_EQ(layer.rope.magnitude, 1.0f);
    EXPECT_EQ(model->config.layers[0].experts.n_expert, 0u);
  }
}

TEST(LoadModel, GivesLlama4ItsChunksAndUnrotatedLayers) {
  const auto model = tiny::LoadTinyKind("llama4");
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  const LayerSpec& rotated = model->config.layers[2];
  EXPECT_EQ(rotated.FirstVisible(15), 0u);
  EXPECT_EQ(rotated.FirstVisible(16), 16u);
  EXPECT_EQ(rotated.FirstVisible(40), 32u);
  EXPECT_EQ(rotated.qk_norm, QkNorm::kAfterRope);
  EXPECT_EQ(rotated.experts.n_expert, 0u);
  EXPECT_EQ(rotated.Temperature(1u << 20), 1.0);
  const LayerSpec& last = model->config.layers[3];
  EXPECT_EQ(last.rope.kind, RopeKind::kNone);
  EXPECT_EQ(last.qk_norm, QkNorm::kNone);
  EXPECT_EQ(last.FirstVisible(40), 0u);
  EXPECT_EQ(last.Temperature(8190), 1.0);
  EXPECT_FLOAT_EQ(static_cast<float>(last.Temperature(8191)), 1.0f + 0.1f * std::log(2.0f));
  EXPECT_TRUE(last.experts.weigh_input);
  EXPECT_EQ(last.experts.n_ff_shared, last.experts.n_ff);
}

TEST(LoadModel, NeedsNoTitle) {
  TinyModelSpec spec;
  spec.edit = [](GgufWriter& writer) { writer.Remove("general.name"); };
  const auto model = LoadTinyModel(spec);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  EXPECT_EQ(model->config.title, "");
}

TEST(LoadModel, RefusesTokenIdsOutsideTheVocabulary) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    TinyModelSpec spec;
    uint32_t id = spec.n_vocab;
    spec.edit = [&](GgufWriter& writer) { writer.SetU32(key, id); };
    const auto refused = LoadTinyModel(spec);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
    EXPECT_THAT(MessageOf(refused.status()), testing::HasSubstr(std::string(key) + " is 48"));
    for (const uint32_t allowed : {47u, UINT32_MAX}) {
      id = allowed;
      EXPECT_TRUE(LoadTinyModel(spec).ok());
    }
  }
}

TEST(RopeFrequencies, FollowTheFormula) {
  TinyModelSpec spec;
  spec.rope_freqs = true;
  spec.edit = [](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "linear");
    writer.SetF32("llama.rope.scaling.factor", 4.0f);
  };
  const auto model = LoadTinyModel(spec);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  const std::vector<float> frequencies = RopeFrequencies(*model, model->config.layers[0], 1);
  ASSERT_EQ(frequencies.size(), 8u);
  const auto* divisors = reinterpret_cast<const float*>(model->rope_freqs->data.data());
  for (size_t i = 0; i < 8; ++i) {
    const double expected = std::pow(10000.0, -static_cast<double>(i) / 8.0) / 4.0 / divisors[i];
    EXPECT_FLOAT_EQ(frequencies[i], static_cast<float>(expected)) << i;
  }
}

TEST(RopeFrequencies, AreUnscaledWhereTheTypeIsNone) {
  TinyModelSpec spec;
  spec.edit = [](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "none");
    writer.SetF32("llama.rope.scaling.factor", 4.0f);
    writer.SetU32("llama.rope.dimension_count", 8);
  };
  const auto model = LoadTinyModel(spec);
  ASSERT_TRUE(model.ok()) << MessageOf(model.status());
  const std::vector<float> frequencies = RopeFrequencies(*model, model->config.layers[0], 1);
  ASSERT_EQ(frequencies.size(), 4u);
  EXPECT_EQ(frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(frequencies[2], 0.01f);
}

// A change that makes the file unusable, the code of the refusal, and what its message must hold.
struct Refusal {
  const char* name;
  std::function<void(TinyModelSpec&)> change;
  absl::StatusCode code;
  std::vector<std::string> mentions;
};

std::function<void(TinyModelSpec&)> Key(std::string key, uint32_t value) {
  return [=](TinyModelSpec& spec) { spec.edit = [=](GgufWriter& writer) { writer.SetU32(key, value); }; };
}
std::function<void(TinyModelSpec&)> FloatKey(std::string key, float value) {
  return [=](TinyModelSpec& spec) { spec.edit = [=](GgufWriter& writer) { writer.SetF32(key, value); }; };
}
std::function<void(TinyModelSpec&)> TextKey(std::string key, std::string value) {
  return [=](TinyModelSpec& spec) { spec.edit = [=](GgufWriter& writer) { writer.SetString(key, value); }; };
}
std::function<void(TinyModelSpec&)> NoKey(std::string key) {
  return [=](TinyModelSpec& spec) { spec.edit = [=](GgufWriter& writer) { writer.Remove(key); }; };
}
std::function<void(TinyModelSpec&)> Shape(std::string tensor, std::vector<uint64_t> dims) {
  return [=](TinyModelSpec& spec) { spec.reshape[tensor] = dims; };
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Refusal kRefusals[] = {
    {"UnknownArchitecture",
     TextKey("general.architecture", "mamba9"),
     kUnimplemented,
     {"mamba9", "llama", "qwen2", "qwen3"}},
    {"NoArchitecture", NoKey("general.architecture"), kInvalid, {"general.architecture"}},
    {"ArchitectureOfAnotherType", Key("general.architecture", 7), kInvalid, {"general.architecture"}},
    {"NoLayers", Key("llama.block_count", 0), kInvalid, {"llama.block_count", "0"}},
    {"TooManyLayers", Key("llama.block_count", 1001), kInvalid, {"llama.block_count", "1001", "1000"}},
    {"LayerMissing", Key("llama.block_count", 4), kInvalid, {"blk.3.attn_norm.weight"}},
    {"LayerTooMany", Key("llama.block_count", 2), kUnimplemented, {"blk.2."}},
    {"NoHeadCount", NoKey("llama.attention.head_count"), kInvalid, {"llama.attention.head_count"}},
    {"ZeroHeads", Key("llama.attention.head_count", 0), kInvalid, {"llama.attention.head_count", "0"}},
    {"ZeroKvHeads", Key("llama.attention.head_count_kv", 0), kInvalid, {"llama.attention.head_count_kv"}},
    {"HeadsNotDivisible", Key("llama.attention.head_count_kv", 3), kInvalid, {"head_count_kv", "4", "3"}},
    {"HugeHead", Key("llama.attention.key_length", 1025), kInvalid, {"key_length", "1025"}},
    {"ZeroHeadDim", Key("llama.attention.key_length", 0), kInvalid, {"key_length", "0"}},
    {"OtherValueLength", Key("llama.attention.value_length", 8), kUnimplemented, {"value_length", "8", "16"}},
    {"OddRotation", Key("llama.rope.dimension_count", 7), kInvalid, {"rope.dimension_count", "7"}},
    {"RotationLargerThanHead",
     Key("llama.rope.dimension_count", 18),
     kInvalid,
     {"rope.dimension_count", "18"}},
    {"HugeEmbedding",
     Key("llama.embedding_length", 0xffffffffu),
     kInvalid,
     {"embedding_length", "4294967295"}},
    {"OtherEmbedding",
     Key("llama.embedding_length", 128),
     kInvalid,
     {"token_embd.weight", "[64, 48]", "[128, 48]"}},
    {"OtherFeedForward",
     Key("llama.feed_forward_length", 95),
     kInvalid,
     {"blk.0.ffn_gate.weight", "[64, 96]", "95"}},
    {"NoContext", NoKey("llama.context_length"), kInvalid, {"llama.context_length"}},
    {"NoEpsilon", NoKey("llama.attention.layer_norm_rms_epsilon"), kInvalid, {"layer_norm_rms_epsilon"}},
    {"NegativeEpsilon", FloatKey("llama.attention.layer_norm_rms_epsilon", -1.0f), kInvalid, {"-1"}},
    {"InfiniteBase", FloatKey("llama.rope.freq_base", kInfinity), kInvalid, {"llama.rope.freq_base"}},
    {"UnknownScaling", TextKey("llama.rope.scaling.type", "dynamic"), kUnimplemented, {"dynamic", "yarn"}},
    {"NegativeFactor", FloatKey("llama.rope.scaling.factor", -2.0f), kInvalid, {"rope.scaling.factor", "-2"}},
    {"ExpertsOfUnknownUse", Key("llama.expert_count", 8), kInvalid, {"llama.expert_used_count", "missing"}},
    {"TooManyExperts", Key("llama.expert_count", 1025), kInvalid, {"llama.expert_count", "1025"}},
    {"LogitScale", FloatKey("llama.logit_scale", 0.5f), kUnimplemented, {"llama.logit_scale", "0.5"}},
    {"NoEmbedding", Shape("token_embd.weight", {}), kInvalid, {"token_embd.weight", "missing"}},
    {"NoOutputNorm", Shape("output_norm.weight", {}), kInvalid, {"output_norm.weight", "missing"}},
    {"NoValueMatrix", Shape("blk.1.attn_v.weight", {}), kInvalid, {"blk.1.attn_v.weight", "missing"}},
    {"TransposedMatrix",
     Shape("blk.1.ffn_down.weight", {64, 96}),
     kInvalid,
     {"blk.1.ffn_down.weight", "[64, 96]", "[96, 64]"}},
    {"MatrixOfThreeDimensions",
     Shape("blk.0.attn_q.weight", {64, 64, 2}),
     kInvalid,
     {"blk.0.attn_q.weight", "[64, 64, 2]"}},
    {"ShortNorm", Shape("blk.2.ffn_norm.weight", {63}), kInvalid, {"blk.2.ffn_norm.weight", "[63]", "[64]"}},
    {"OtherVocabularyOfHead",
     Shape("output.weight", {64, 47}),
     kInvalid,
     {"output.weight", "[64, 47]", "[64, 48]"}},
    {"BiasThatQwen3DoesNotKnow",
     [](TinyModelSpec& spec) {
       spec.architecture = "qwen3";
       spec.qk_norm = spec.qkv_bias = true;
     },
     kUnimplemented,
     {"blk.0.attn_q.bias", "qwen3"}},
    {"TokensOfAnotherCount",
     [](TinyModelSpec& spec) {
       spec.edit = [](GgufWriter& writer) {
         writer.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
       };
     },
     kInvalid,
     {"token_embd.weight", "tokenizer.ggml.tokens", "2"}},
    {"HeadsOfTooFewLayers",
     [](TinyModelSpec& spec) {
       spec.edit = [](GgufWriter& writer) {
         writer.SetU32s("llama.attention.head_count", std::vector<uint32_t>{4, 4});
       };
     },
     kInvalid,
     {"llama.attention.head_count", "2", "3"}},
    {"HalfPrecisionNorm",
     [](TinyModelSpec& spec) {
       spec.reshape["output_norm.weight"] = {};
       spec.edit = [](GgufWriter& writer) {
         const std::vector<float> ones(64, 1.0f);
         (void)writer.AddTensorFromFloats("output_norm.weight", TensorType::kF16, std::vector<uint64_t>{64},
                                          ones);
       };
     },
     kUnimplemented,
     {"output_norm.weight", "F16"}},
    {"ZeroRopeFactor",
     [](TinyModelSpec& spec) {
       spec.edit = [](GgufWriter& writer) {
         const std::vector<float> zeros(8, 0.0f);
         (void)writer.AddTensorFromFloats("rope_freqs.weight", TensorType::kF32, std::vector<uint64_t>{8},
                                          zeros);
       };
     },
     kInvalid,
     {"rope_freqs.weight[0]"}},
};

class LoadModelRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(LoadModelRefuses, NamingWhatAndWhere) {
  TinyModelSpec spec;
  GetParam().change(spec);
  const auto model = LoadTinyModel(spec);
  ASSERT_FALSE(model.ok());
  const std::string message = MessageOf(model.status());
  EXPECT_EQ(model.status().code(), GetParam().code) << message;
  for (const std::string& mention : GetParam().mentions) EXPECT_THAT(message, HasSubstr(mention));
  EXPECT_THAT(message, HasSubstr("spillway-tiny-")) << "the file is not named";
}

INSTANTIATE_TEST_SUITE_P(Files, LoadModelRefuses, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

TEST(LoadModel, RefusesAVocabularyWithoutWeights) {
  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  const std::string path = testing::TempDir() + "/vocabulary_only.gguf";
  ASSERT_TRUE(writer.Write(path).ok());
  const auto model = LoadModel(path);
  std::filesystem::remove(path);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(model.status()), AllOf(HasSubstr("vocabulary"), HasSubstr("vocabulary_only.gguf")));
}

TEST(LoadModel, PassesOnThatAFileIsAbsent) {
  EXPECT_EQ(LoadModel("/nonexistent/model.gguf").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace spillway
