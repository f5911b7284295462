// Every published case of the byte-level BPE and SentencePiece vocabularies: text to ids as llama.cpp
// computes them, and back.
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/tokenizer/cases.h"

namespace spillway {
namespace {

class TokenizerGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, EncodesAndDecodesEveryCase) {
  SPILLWAY_REQUIRE_CASES(folder);
  const auto stem = folder / "tokenizer" / GetParam();
  const auto file = GgufFile::Open(stem.string() + ".gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto tokenizer = Tokenizer::Load(**file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto cases = testing::ReadJson(stem.string() + ".json");
  ASSERT_TRUE(cases.is_array());
  ASSERT_FALSE(cases.empty());
  for (const auto& one : cases) {
    const auto text = one["text"].get<std::string>();
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ((*tokenizer)->Encode(text, /*parse_special=*/false), ids) << text;
    EXPECT_EQ((*tokenizer)->Decode(ids, /*special=*/false), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerGolden,
                         ::testing::Values("smollm", "gpt-2", "llama-bpe", "qwen2", "starcoder",
                                           "deepseek-llm", "llama-spm", "phi-3"));

}  // namespace
}  // namespace spillway
