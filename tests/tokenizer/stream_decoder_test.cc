// Text streamed token by token never splits a character and is, put together, the replaced whole.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace spillway {
namespace {

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    if (step.kind != Utf8Kind::kCharacter) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

class StreamDecoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Vocabulary vocabulary = testing::ByteVocabulary();
    control_ = testing::AddToken(vocabulary, "<end>", TokenType::kControl);
    auto tokenizer = Tokenizer::Create(std::move(vocabulary));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  // One token a byte; "|" after each that gave text.
  std::string Stream(std::string_view bytes) const {
    StreamDecoder decoder(*tokenizer_);
    std::string out;
    for (const char byte : bytes) {
      const std::string text = decoder.Add(static_cast<uint8_t>(byte));
      EXPECT_TRUE(IsUtf8(text));
      out += text.empty() ? "" : text + "|";
    }
    return out + decoder.Finish();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  int32_t control_ = 0;
};

TEST_F(StreamDecoderTest, HoldsBackACharacterUntilItIsWhole) {
  EXPECT_EQ(Stream("aé語🦙"), "a|é|語|🦙|");
}

TEST_F(StreamDecoderTest, ReplacesWhatCannotBecomeACharacter) {
  EXPECT_EQ(Stream("\xFFz"), "\uFFFD|z|");
  EXPECT_EQ(Stream("\xE2\x82z"), "\uFFFDz|");
  EXPECT_EQ(Stream("\xF0\x9F\xF0\x9F\xA6\x99"), "\uFFFD|🦙|");
  EXPECT_EQ(Stream("\xE0\x80"), "\uFFFD\uFFFD|");             // overlong: two maximal subparts
  EXPECT_EQ(Stream("\xED\xA0\x80"), "\uFFFD\uFFFD|\uFFFD|");  // a surrogate
}

TEST_F(StreamDecoderTest, ReplacesAnUnfinishedCharacterAtTheEnd) {
  EXPECT_EQ(Stream("a\xF0\x9F\xA6"), "a|\uFFFD");
  EXPECT_EQ(Stream("a"), "a|");
  EXPECT_EQ(Stream(""), "");
}

TEST_F(StreamDecoderTest, PassesOverControlTokensInsideACharacter) {
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.Add(0xC3), "");
  EXPECT_EQ(decoder.Add(control_), "");
  EXPECT_EQ(decoder.Add(0xA9), "é");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST_F(StreamDecoderTest, ChunkingDoesNotChangeTheText) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    std::string bytes;
    for (int k = 0; k < 24; ++k)
      bytes += static_cast<char>(random() % 3 == 0 ? random() % 256 : 0x80 + random() % 0x78);
    StreamDecoder one_by_one(*tokenizer_);
    std::string streamed;
    for (const char byte : bytes) streamed += one_by_one.Add(static_cast<uint8_t>(byte));
    streamed += one_by_one.Finish();
    std::string whole;
    for (std::string_view rest = bytes; !rest.empty();) {
      const Utf8Step step = NextUtf8(rest);
      whole += step.kind == Utf8Kind::kCharacter ? rest.substr(0, step.length) : kReplacementCharacter;
      rest.remove_prefix(step.length);
    }
    EXPECT_EQ(streamed, whole);
  }
}

}  // namespace
}  // namespace spillway
