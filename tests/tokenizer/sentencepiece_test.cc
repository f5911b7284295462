// SentencePiece vocabularies (and Gemma 4's): merges by score, byte fallback, the space before a text, what
// is read from a file and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/base/status.h"
#include "engine/gguf/writer.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/files.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace spillway {
namespace {

using testing::AddPiece;
using testing::AddToken;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kFirstPieceByte;
using testing::SentencePieceVocabulary;

std::unique_ptr<Tokenizer> MustCreate(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

constexpr int32_t Byte(int value) { return kFirstPieceByte + value; }

// ▁ a b ▁a ab ▁ab, the later the lower its score.
struct Pieces {
  Vocabulary vocabulary = SentencePieceVocabulary();
  int32_t space = AddPiece(vocabulary, "▁", -1);
  int32_t a = AddPiece(vocabulary, "a", -2);
  int32_t b = AddPiece(vocabulary, "b", -3);
  int32_t space_a = AddPiece(vocabulary, "▁a", -4);
  int32_t ab = AddPiece(vocabulary, "ab", -5);
  int32_t space_ab = AddPiece(vocabulary, "▁ab", -6);
};

TEST(SentencePiece, MergesByScoreAndLeftmostFirst) {
  Pieces p;
  const int32_t aa = AddPiece(p.vocabulary, "aa", -1);
  const int32_t bb = AddPiece(p.vocabulary, "bb", -1);
  p.vocabulary.add_space_prefix = false;
  const auto tokenizer = MustCreate(p.vocabulary);
  EXPECT_THAT(tokenizer->Encode("aaa", false), ElementsAre(aa, p.a));
  EXPECT_THAT(tokenizer->Encode("aabb", false), ElementsAre(aa, bb));
  EXPECT_THAT(tokenizer->Encode("abb", false), ElementsAre(p.a, bb));
  EXPECT_THAT(tokenizer->Encode(" ab", false), ElementsAre(p.space_ab));
}

TEST(SentencePiece, ReachesATokenOnlyThroughTokens) {
  Pieces p;
  AddPiece(p.vocabulary, "abab▁", 0);  // no two of its parts that are there give it
  const auto tokenizer = MustCreate(p.vocabulary);
  EXPECT_THAT(tokenizer->Encode("abab ", false), ElementsAre(p.space_ab, p.ab, p.space));
}

TEST(SentencePiece, MergesCharactersThatAreNoTokensThemselves) {
  Pieces p;
  const int32_t token = AddPiece(p.vocabulary, "語é", -7);
  const auto tokenizer = MustCreate(p.vocabulary);
  EXPECT_THAT(tokenizer->Encode("語é", false), ElementsAre(p.space, token));
  EXPECT_THAT(tokenizer->Encode("é", false), ElementsAre(p.space, Byte(0xC3), Byte(0xA9)));
}

TEST(SentencePiece, PutsASpaceBeforeATextUnlessToldNotTo) {
  Pieces p;
  EXPECT_THAT(MustCreate(p.vocabulary)->Encode("ab", false), ElementsAre(p.space_ab));
  EXPECT_THAT(MustCreate(p.vocabulary)->Encode("", false), ElementsAre());
  EXPECT_TRUE(MustCreate(p.vocabulary)->add_bos());
  p.vocabulary.add_space_prefix = false;
  EXPECT_THAT(MustCreate(p.vocabulary)->Encode("ab", false), ElementsAre(p.ab));
}

TEST(SentencePiece, PutsASpaceBehindSpecialTokensToo) {
  Pieces p;
  const int32_t user = AddPiece(p.vocabulary, "[U]", 0, TokenType::kUserDefined);
  const auto tokenizer = MustCreate(p.vocabulary);
  EXPECT_THAT(tokenizer->Encode("<s>ab</s>", true), ElementsAre(1, p.space_ab, 2));
  EXPECT_THAT(tokenizer->Encode("a[U]a", false), ElementsAre(p.space_a, user, p.space_a));
  for (const char* text : {"<s>ab</s>", "a[U]a", " a", "  <s>  a", "<s><s> ab", "a</s>\n[U]\n", " [U] "}) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, true), true), text);
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), text);
  }
}

TEST(SentencePiece, NeverMergesTextIntoControlOrByteTokens) {
  Pieces p;
  for (const char* piece : {"<", "/", "s", ">", "</", "s>", "0", "x", "4", "1", "<0", "x4", "1>", "x41>"}) {
    AddPiece(p.vocabulary, piece, -1);
  }
  const auto tokenizer = MustCreate(p.vocabulary);
  const auto ids = tokenizer->Encode("</s><0x41>", false);
  for (const int32_t id : ids) EXPECT_GE(id, p.space);
  EXPECT_EQ(tokenizer->Decode(ids, false), "</s><0x41>");
}

TEST(SentencePiece, TakesTheUnknownTokenOnceForARunWithoutByteTokens) {
  Pieces p;
  for (int32_t byte = 0; byte < 256; ++byte) p.vocabulary.types[Byte(byte)] = TokenType::kUnused;
  for (int32_t byte = 0; byte < 256; ++byte)
    p.vocabulary.tokens[Byte(byte)] = fmt::format("(unused {})", byte);
  const auto tokenizer = MustCreate(p.vocabulary);
  EXPECT_THAT(tokenizer->Encode("a語🦙b語", false), ElementsAre(p.space_a, 0, p.b, 0));
}

TEST(SentencePiece, KeepsEveryByteOfAnyText) {
  Pieces p;
  AddPiece(p.vocabulary, "語", -7);
  AddPiece(p.vocabulary, "[U]", 0, TokenType::kUserDefined);
  const std::string_view parts[] = {"a",    "b",    " ",        "▁",  "語",  "é",
                                    "🦙", "\xFF", "\xE2\x96", "\n", "<s>", "[U]"};
  std::mt19937 random(5);
  for (const bool prefix : {true, false}) {
    p.vocabulary.add_space_prefix = prefix;
    const auto tokenizer = MustCreate(p.vocabulary);
    for (int i = 0; i < 500; ++i) {
      std::string text;
      std::string expected;  // ▁ is how the vocabulary writes a space
      for (int k = 0; k < 12; ++k) {
        const std::string_view part = parts[random() % std::size(parts)];
        text += part;
        expected += part == "▁" ? " " : part;
      }
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), expected);
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, true), true), expected);
    }
  }
}

TEST(SentencePiece, EncodesLongRepetitionsWithoutQuadraticTime) {
  Pieces p;
  for (std::string run = "aa"; run.size() <= 64; run += run) AddPiece(p.vocabulary, run, -8);
  for (std::string run = "▁▁"; run.size() <= 96; run += run) AddPiece(p.vocabulary, run, -8);
  const auto tokenizer = MustCreate(p.vocabulary);
  for (const char* unit : {"a", " ", "\n", "語", "\xFF", "ab", " ab"}) {
    std::string text;
    while (text.size() < (1u << 20)) text += unit;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, true), true), text) << unit;
  }
}

TEST(SentencePiece, DropsTheSpaceOnceAtTheStartOfAStream) {
  Pieces p;
  const auto tokenizer = MustCreate(p.vocabulary);
  StreamDecoder fresh(*tokenizer);
  EXPECT_EQ(fresh.Add(1), "");
  EXPECT_EQ(fresh.Add(p.space_a), "a");
  EXPECT_EQ(fresh.Add(p.space_a), " a");
  StreamDecoder answer(*tokenizer, 1);  // the prompt ended in a control token
  EXPECT_EQ(answer.Add(p.space), "");
  EXPECT_EQ(answer.Add(p.space_a), " a");
  StreamDecoder continuing(*tokenizer, p.a);  // the prompt ended in text
  EXPECT_EQ(continuing.Add(p.space_a), " a");
}

TEST(SentencePiece, PutsBytesTogetherInAStream) {
  Pieces p;
  const auto tokenizer = MustCreate(p.vocabulary);
  StreamDecoder decoder(*tokenizer);
  for (const int byte : {0xF0, 0x9F, 0xA6}) EXPECT_EQ(decoder.Add(Byte(byte)), "");
  EXPECT_EQ(decoder.Add(Byte(0x99)), "🦙");
  EXPECT_EQ(decoder.Add(Byte(0xC3)), "");
  EXPECT_EQ(decoder.Add(p.space_a), "\uFFFD a");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(SentencePiece, StripsWhiteSpaceBehindAddedTokensOfPhi3) {
  Pieces p;
  p.vocabulary.types[2] = TokenType::kUserDefined;
  p.vocabulary.strip_after_added_tokens = true;
  const int32_t user = AddPiece(p.vocabulary, "<|user|>", 0, TokenType::kControl);
  const auto tokenizer = MustCreate(p.vocabulary);
  EXPECT_THAT(tokenizer->Encode("<|user|> \n\tab", true), ElementsAre(user, p.space_ab));
  EXPECT_THAT(tokenizer->Encode("</s>  a", true), ElementsAre(2, p.space_a));
  EXPECT_THAT(tokenizer->Encode("<s> a", true), ElementsAre(1, p.space, p.space_a));
  EXPECT_THAT(tokenizer->Encode("<|user|> ", true), ElementsAre(user));
}

TEST(SentencePiece, EndsATurnAtPhisEndTokenButNotAtHarmonys) {
  Pieces p;
  const int32_t end = AddPiece(p.vocabulary, "<|end|>", 0, TokenType::kControl);
  EXPECT_THAT(MustCreate(p.vocabulary)->stop_ids(), ElementsAre(2, end));
  const int32_t back = AddPiece(p.vocabulary, "<|return|>", 0, TokenType::kControl);
  EXPECT_THAT(MustCreate(p.vocabulary)->stop_ids(), ElementsAre(2, back));
}

TEST(SentencePiece, RefusesScoresThatDoNotFit) {
  const auto refuses = [](const Vocabulary& vocabulary, const char* what) {
    const absl::Status status = Tokenizer::Create(vocabulary).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(MessageOf(status), HasSubstr(what));
  };
  Vocabulary vocabulary = SentencePieceVocabulary();
  vocabulary.scores.clear();
  refuses(vocabulary, "tokenizer.ggml.scores: 0 entries for 259 tokens");
  vocabulary.scores.assign(259, std::nanf(""));
  refuses(vocabulary, "tokenizer.ggml.scores[0]: not a number");
  vocabulary = SentencePieceVocabulary();
  AddPiece(vocabulary, std::string(2000, 'a'), 0);
  refuses(vocabulary, "tokens[259]: 2000 bytes");
}

class SentencePieceFile : public ::testing::Test {
 protected:
  Vocabulary Read(const std::string& architecture, const std::string& name, bool with_ids) {
    GgufWriter writer;
    writer.SetString("general.architecture", architecture);
    writer.SetString("general.name", name);
    writer.SetString("tokenizer.ggml.model", "llama");
    writer.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a"});
    writer.SetI32s("tokenizer.ggml.token_type", std::vector<int32_t>{2, 3, 3, 1});
    writer.SetF32s("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1.5f});
    if (with_ids) {
      writer.SetU32("tokenizer.ggml.eos_token_id", 3);
      writer.SetBool("tokenizer.ggml.add_space_prefix", false);
    }
    const std::string path = folder_.File("vocabulary.gguf");
    EXPECT_TRUE(writer.Write(path).ok());
    const auto file = GgufFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    const auto vocabulary = ReadVocabulary(**file);
    EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
    return vocabulary.value_or(Vocabulary());
  }

  test::TempDir folder_;
};

TEST_F(SentencePieceFile, AssumesTheUsualIdsWhereTheFileNamesNone) {
  const Vocabulary vocabulary = Read("llama", "any", false);
  EXPECT_THAT(vocabulary.scores, ElementsAre(0, 0, 0, -1.5f));
  EXPECT_EQ(vocabulary.unknown, 0);
  EXPECT_EQ(vocabulary.bos, 1);
  EXPECT_EQ(vocabulary.eos, 2);
  EXPECT_EQ(vocabulary.add_space_prefix, std::nullopt);
  EXPECT_EQ(Read("llama", "any", true).eos, 3);
  EXPECT_EQ(Read("llama", "any", true).add_space_prefix, false);
}

TEST_F(SentencePieceFile, KnowsPhi3ByItsArchitectureOrName) {
  EXPECT_FALSE(Read("llama", "any", false).strip_after_added_tokens);
  EXPECT_TRUE(Read("phi3", "any", false).strip_after_added_tokens);
  EXPECT_TRUE(Read("llama", "Phi-3 mini", false).strip_after_added_tokens);
}

TEST(Gemma4, MergesCharactersInTheListedOrderAndKeepsLineEndsWhole) {
  Vocabulary vocabulary;
  vocabulary.model = kGemma4Model;
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(vocabulary, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  const int32_t space = AddToken(vocabulary, "▁");
  const int32_t a = AddToken(vocabulary, "a");
  const int32_t space_a = testing::AddMerge(vocabulary, "▁", "a");
  const int32_t lines = AddToken(vocabulary, "\n\n");
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_THAT(tokenizer->Encode("a a  a", false), ElementsAre(a, space_a, space, space_a));
  EXPECT_THAT(tokenizer->Encode("a\n\na\né", false), ElementsAre(a, lines, a, '\n', 0xC3, 0xA9));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(" a\n\n\né", false), false), " a\n\n\né");
}

}  // namespace
}  // namespace spillway
