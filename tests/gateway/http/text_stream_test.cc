// Goal: what leaves is whole characters, nothing of a stop string, and each token's logprobs with the text it
// began. Method: bytes as tokens, so that every character and every stop string is split.
#include "gateway/http/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/http/tiny_vocabulary.h"

namespace spillway::gateway {
namespace {

using ::testing::ElementsAre;

class TextStreamTest : public ::testing::Test {
 protected:
  static GenerationEvent Token(int32_t token) {
    GenerationEvent event;
    event.token = {token, -1.0f};
    event.is_stop = token == test::kImEnd;
    return event;
  }
  TextStream Make(const std::vector<std::string>& stop, bool keep_tokens = false) {
    auto matcher = StopMatcher::Create(stop);
    EXPECT_TRUE(matcher.ok());
    return TextStream(*tokenizer_, *std::move(matcher), keep_tokens, {});
  }
  std::unique_ptr<Tokenizer> tokenizer_ = test::MakeTokenizer();
};

TEST_F(TextStreamTest, CharactersAreNeverSplit) {
  TextStream stream = Make({});
  std::vector<std::string> pieces;
  for (const int32_t token : test::Bytes("aé€😀")) pieces.push_back(stream.Add(Token(token)).text);
  EXPECT_THAT(pieces, ElementsAre("a", "", "é", "", "", "€", "", "", "", "😀"));
  EXPECT_EQ(stream.Finish().text, "");
}

TEST_F(TextStreamTest, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  TextStream stream = Make({});
  EXPECT_EQ(stream.Add(Token(0xE2)).text, "");
  EXPECT_EQ(stream.Add(Token(test::kImEnd)).text, "");
  EXPECT_EQ(stream.Finish().text, "\xEF\xBF\xBD");
}

TEST_F(TextStreamTest, StopStringsSpanTokensAndEndTheText) {
  TextStream stream = Make({"END"});
  std::string text;
  for (const int32_t token : test::Bytes("oEN EN")) text += stream.Add(Token(token)).text;
  EXPECT_EQ(text, "oEN ");
  EXPECT_FALSE(stream.stopped());
  text += stream.Add(Token('D')).text;
  EXPECT_TRUE(stream.stopped());
  text += stream.Add(Token('x')).text;
  text += stream.Finish().text;
  EXPECT_EQ(text, "oEN ");
}

TEST_F(TextStreamTest, HeldTextComesWithTheEnd) {
  TextStream stream = Make({"END"});
  EXPECT_EQ(stream.Add(Token('E')).text, "");
  EXPECT_EQ(stream.Finish().text, "E");
  EXPECT_FALSE(stream.stopped());
}

TEST_F(TextStreamTest, LogprobsTravelWithTheirText) {
  TextStream stream = Make({"xyz"}, /*keep_tokens=*/true);
  std::vector<int32_t> tokens;
  std::vector<uint64_t> offsets;
  std::string text;
  const auto take = [&](TextPiece piece) {
    text += piece.text;
    for (const TokenRecord& record : piece.tokens) {
      tokens.push_back(record.token.token);
      offsets.push_back(record.text_offset);
    }
    return piece.tokens.size();
  };
  EXPECT_EQ(take(stream.Add(Token(0xC3))), 0u);  // half a character waits with its token
  EXPECT_EQ(take(stream.Add(Token(0xA9))), 2u);
  EXPECT_EQ(take(stream.Add(Token('x'))), 0u);  // may begin the stop string
  EXPECT_EQ(take(stream.Add(Token('a'))), 2u);
  for (const int32_t token : test::Bytes("xyz")) EXPECT_EQ(take(stream.Add(Token(token))), 0u);
  EXPECT_EQ(take(stream.Finish()), 0u);
  EXPECT_EQ(text, "éxa");
  EXPECT_THAT(tokens, ElementsAre(0xC3, 0xA9, 'x', 'a'));
  EXPECT_THAT(offsets, ElementsAre(0u, 0u, 1u, 2u));
}

TEST_F(TextStreamTest, StopIdsAreNotPartOfTheAnswer) {
  TextStream stream = Make({}, /*keep_tokens=*/true);
  EXPECT_EQ(stream.Add(Token('a')).tokens.size(), 1u);
  EXPECT_TRUE(stream.Add(Token(test::kImEnd)).empty());
  EXPECT_TRUE(stream.Finish().empty());
}

}  // namespace
}  // namespace spillway::gateway
