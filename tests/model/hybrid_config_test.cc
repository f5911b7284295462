// Hybrids (qwen35, qwen35moe, qwen3next) from keys to layers: which are recurrent, what is skipped, what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/base/status.h"
#include "engine/model/config.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Model> Load(const test::TinyModel& tiny, const std::function<void(GgufWriter&)>& edit = {}) {
  const test::TempDir dir;
  SPILLWAY_ASSIGN_OR_RETURN(GgufWriter writer, test::MakeTinyModel(tiny));
  if (edit) edit(writer);
  SPILLWAY_RETURN_IF_ERROR(writer.Write(dir.File("tiny.gguf")));
  return LoadModel(dir.File("tiny.gguf"));
}

test::TinyModel Tiny(const std::string& architecture) {
  test::TinyModel tiny;
  tiny.architecture = architecture;
  tiny.n_layer = 4;
  return tiny;
}

std::vector<bool> RecurrentLayers(const Model& model) {
  std::vector<bool> recurrent;
  for (const LayerSpec& layer : model.config.layers) recurrent.push_back(layer.Recurrent());
  return recurrent;
}

TEST(HybridConfig, EveryPeriodEndsWithAttention) {
  for (const char* architecture : {"qwen35", "qwen35moe", "qwen3next"}) {
    SCOPED_TRACE(architecture);
    const auto model = Load(Tiny(architecture));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(RecurrentLayers(*model), ElementsAre(true, false, true, false));
    const LayerSpec& attention = model->config.layers[1];
    EXPECT_TRUE(attention.output_gate);
    EXPECT_EQ(attention.rope.n_rot, attention.head_dim / 2);
    const RecurrentSpec& spec = model->config.layers[0].recurrent;
    EXPECT_EQ(spec.Channels(), 2u * 2 * 16 + 6 * 16);
    EXPECT_EQ(spec.State(), 3u * spec.Channels() + 6 * 16 * 16);
    EXPECT_EQ(spec.ValueHead(1, 0), std::string(architecture) == "qwen3next" ? 3u : 1u);
    EXPECT_EQ(model->config.layers[0].experts.n_expert, std::string(architecture) == "qwen35" ? 0u : 4u);
  }
}

TEST(HybridConfig, AListOfLayersTakesPrecedenceOverThePeriod) {
  const auto model = Load(Tiny("qwen35"), [](GgufWriter& writer) {
    writer.SetBools("qwen35.attention.recurrent_layers", {true, false, true, false});
    writer.SetU32("qwen35.full_attention_interval", 3);
  });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(RecurrentLayers(*model), ElementsAre(true, false, true, false));
}

TEST(HybridConfig, DraftBlocksAreSkipped) {
  const auto model = Load(Tiny("qwen35moe"), [](GgufWriter& writer) {
    writer.SetU32("qwen35moe.block_count", 5);
    writer.SetU32("qwen35moe.nextn_predict_layers", 1);
    writer.SetBools("qwen35moe.attention.recurrent_layers", {true, false, true, false, false});
    const std::vector<float> values(64 * 128);
    ASSERT_TRUE(writer
                    .AddTensorFromFloats("blk.4.nextn.eh_proj.weight", TensorType::kF16,
                                         std::vector<uint64_t>{128, 64}, values)
                    .ok());
  });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.n_layer, 4u);
}

TEST(HybridConfig, TheTokenizerOfTheFamilyLoads) {
  const auto model =
      Load(Tiny("qwen35"), [](GgufWriter& writer) { writer.SetString("tokenizer.ggml.pre", "qwen35"); });
  ASSERT_TRUE(model.ok()) << model.status();
  const auto tokenizer = Tokenizer::Load(*model->file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
}

TEST(HybridConfig, NamesWhatItCannotTake) {
  struct Row {
    const char* key;
    uint32_t value;
    const char* why;
  };
  const Row rows[] = {{"qwen35.ssm.state_size", 24, "multiples of 16"},
                      {"qwen35.ssm.group_count", 4, "must be a multiple of"},
                      {"qwen35.ssm.conv_kernel", 1, "at least 2 taps"},
                      {"qwen35.ssm.conv_kernel", 9, "[1, 8]"},
                      {"qwen35.ssm.time_step_rank", 0, "ssm.time_step_rank is 0"},
                      {"qwen35.ssm.inner_size", 97, "ssm.inner_size 97"},
                      {"qwen35.ssm.inner_size", 192, "tensor blk.0.attn_qkv.weight"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.key);
    const auto model = Load(Tiny("qwen35"), [&](GgufWriter& writer) { writer.SetU32(row.key, row.value); });
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(MessageOf(model.status()), HasSubstr(row.why));
  }
  const auto missing =
      Load(Tiny("qwen35"), [](GgufWriter& writer) { writer.Remove("qwen35.ssm.state_size"); });
  EXPECT_THAT(MessageOf(missing.status()), HasSubstr("ssm.state_size is missing"));
  const auto few = Load(Tiny("qwen35"), [](GgufWriter& writer) {
    writer.SetBools("qwen35.attention.recurrent_layers", {true, false});
  });
  EXPECT_THAT(MessageOf(few.status()), HasSubstr("has 2 entries"));
}

}  // namespace
}  // namespace spillway
