// The helpers that other tests rely on: the comparator must fail when it should, a tiny model must be a whole
// model.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/gguf/reader.h"
#include "tests/support/expect_close.h"
#include "tests/support/files.h"
#include "tests/support/random_data.h"
#include "tests/support/tiny_model.h"

namespace spillway::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ExpectClose, AcceptsValuesWithinTheTolerance) {
  ExpectClose(std::vector<float>{1.0f, 2.0f}, std::vector<float>{1.25f, 2.0f}, 0.25);
  ExpectClose(std::vector<float>{}, std::vector<float>{}, 0.0);
}

TEST(ExpectClose, FailsOnNanAndInfinityOnEitherSideWhateverTheTolerance) {
  static const std::vector<float> good = {1.0f, 2.0f};
  for (const float bad : {kNan, kInf, -kInf}) {
    static std::vector<float> values;
    values = {1.0f, bad};
    EXPECT_NONFATAL_FAILURE(ExpectClose(values, good, 1e30), "worst at index 1");
    EXPECT_NONFATAL_FAILURE(ExpectClose(good, values, 1e30), "worst at index 1");
    EXPECT_NONFATAL_FAILURE(ExpectClose(values, values, 1e30), "worst at index 1");
    EXPECT_NONFATAL_FAILURE(ExpectClose(values, good, kInf), "worst at index 1");
  }
}

TEST(ExpectClose, NamesTheWorstIndexBothValuesAndTheTolerance) {
  static const std::vector<float> actual = {1.0f, 5.0f, 3.5f};
  static const std::vector<float> expected = {1.0f, 2.0f, 3.0f};
  EXPECT_NONFATAL_FAILURE(
      ExpectClose(actual, expected, 0.25),
      "2 of 3 values are out; worst at index 1: actual 5, expected 2, difference 3, tolerance 0.25");
  EXPECT_NONFATAL_FAILURE(ExpectClose(actual, std::span(expected).first(2), 9.0),
                          "sizes differ: actual 3, expected 2");
  EXPECT_NONFATAL_FAILURE(ExpectClose(actual, expected, kNan), "3 of 3 values are out");
}

TEST(RandomBlocks, AreFiniteInEveryFormatAndDependOnTheSeed) {
  for (const FormatInfo& format : AllFormats()) {
    SCOPED_TRACE(format.name);
    const std::vector<std::byte> blocks = RandomBlocks(format.type, 1024, 7);
    for (const float value : Dequantize(format.type, blocks)) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(blocks, RandomBlocks(format.type, 1024, 7));
    EXPECT_NE(blocks, RandomBlocks(format.type, 1024, 8));
  }
}

TEST(TinyModel, OpensWithAllItsTensorsInEveryQuantizedFormat) {
  const TempDir dir;
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0,
                                TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ4_K, TensorType::kQ6_K}) {
    SCOPED_TRACE(FormatOf(type).name);
    TinyModel model;
    model.n_embd = 256;
    model.n_ff = 512;
    model.weight_type = type;
    model.tied = false;
    model.rope_freqs = true;
    const auto path = WriteTinyModel(model, dir.File("tiny.gguf"));
    ASSERT_TRUE(path.ok()) << path.status();
    const auto file = GgufFile::Open(*path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->tensors().size(), 2u * 9 + 4);
    const GgufTensor* down = (*file)->FindTensor("blk.1.ffn_down.weight");
    ASSERT_NE(down, nullptr);
    EXPECT_EQ(down->type, type);
    EXPECT_EQ(down->dims, (std::array<uint64_t, 4>{512, 256, 1, 1}));
    const auto* tokens = (*file)->FindStrings("tokenizer.ggml.tokens");
    ASSERT_NE(tokens, nullptr);
    EXPECT_EQ(tokens->size(), model.n_vocab);
    EXPECT_EQ(tokens->at(kTinyImEnd), "<|im_end|>");
  }
}

TEST(TinyModel, TokensAreUniqueAlsoInALargeVocabulary) {
  const TempDir dir;
  TinyModel model;
  model.n_vocab = 2000;
  const auto path = WriteTinyModel(model, dir.File("tiny.gguf"));
  ASSERT_TRUE(path.ok()) << path.status();
  const auto file = GgufFile::Open(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto* tokens = (*file)->FindStrings("tokenizer.ggml.tokens");
  EXPECT_EQ(std::set<std::string>(tokens->begin(), tokens->end()).size(), 2000u);
  model.n_vocab = 258;
  EXPECT_EQ(WriteTinyModel(model, *path).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace spillway::test
