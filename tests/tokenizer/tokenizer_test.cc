// What the golden cases cannot show: special tokens, broken text, bounds in time, refusals, on small
// vocabularies.
#include "engine/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "engine/base/status.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace spillway {
namespace {

using testing::AddMerge;
using testing::AddToken;
using testing::ByteVocabulary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Tokenizer> MustCreate(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::vector<std::string> Pieces(std::string_view pre, std::string_view text) {
  const auto splitter = PreTokenizer::Compile(*FindPreTokenizer(pre));
  EXPECT_TRUE(splitter.ok()) << splitter.status();
  std::vector<std::string> out;
  for (const std::string_view piece : (*splitter)->Split(text)) out.emplace_back(piece);
  return out;
}

// Bytes over the whole range, mostly text, seeded.
std::string RandomBytes(std::mt19937& random, size_t length) {
  static constexpr std::string_view kParts[] = {
      "a",    "B",        "7",    " ",        "\n", "\t", "'s", "'LL", "é", "語", "🦙", "\xE2\x80\x83",
      "\xFF", "\xE2\x82", "\xC0", "\xF0\x9F", "!",  "<",  "\r", "٣"};
  std::string out;
  while (out.size() < length) out += kParts[random() % std::size(kParts)];
  return out;
}

TEST(Tokenizer, MergesByRankAndLeftmostFirst) {
  Vocabulary vocabulary = ByteVocabulary();
  const int32_t bc = AddMerge(vocabulary, "b", "c");
  const int32_t ab = AddMerge(vocabulary, "a", "b");
  const int32_t aa = AddMerge(vocabulary, "a", "a");
  const int32_t abab = AddMerge(vocabulary, "ab", "ab");
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_THAT(tokenizer->Encode("abc", false), ElementsAre('a', bc));
  EXPECT_THAT(tokenizer->Encode("aaa", false), ElementsAre(aa, 'a'));
  EXPECT_THAT(tokenizer->Encode("ababab", false), ElementsAre(abab, ab));
}

TEST(Tokenizer, SpellsAMergeWithoutATokenInBytes) {
  Vocabulary vocabulary = ByteVocabulary();
  vocabulary.merges.push_back("x y");
  vocabulary.merges.push_back("xy z");
  const int32_t xyz = AddToken(vocabulary, "xyz");
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_THAT(tokenizer->Encode("xyz", false), ElementsAre(xyz));
  EXPECT_THAT(tokenizer->Encode("xy", false), ElementsAre('x', 'y'));
}

TEST(Tokenizer, FallsBackToByteTokensThenToTheUnknownToken) {
  Vocabulary vocabulary = ByteVocabulary();
  vocabulary.tokens['q'] = "<0x71>";
  vocabulary.types['q'] = TokenType::kByte;
  vocabulary.tokens['w'] = "(none)";
  vocabulary.unknown = AddToken(vocabulary, "<unk>", TokenType::kUnknown);
  const int32_t unknown = *vocabulary.unknown;
  const auto tokenizer = MustCreate(vocabulary);
  EXPECT_THAT(tokenizer->Encode("qw", false), ElementsAre('q', unknown));
  vocabulary.types.back() = TokenType::kControl;
  EXPECT_THAT(MustCreate(vocabulary)->Encode("qwq", true), ElementsAre('q', 'q'));
  EXPECT_EQ(tokenizer->TokenBytes('q', false), "q");
}

TEST(Tokenizer, FindsControlTokensOnlyWhenAskedAndUserDefinedOnesAlways) {
  Vocabulary vocabulary = ByteVocabulary();
  const int32_t start = AddToken(vocabulary, "<s>", TokenType::kControl);
  const int32_t longer = AddToken(vocabulary, "<s><s>", TokenType::kControl);
  const int32_t user = AddToken(vocabulary, "[U]", TokenType::kUserDefined);
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_THAT(tokenizer->Encode("a<s>b[U]", true), ElementsAre('a', start, 'b', user));
  EXPECT_THAT(tokenizer->Encode("<s><s><s>", true), ElementsAre(longer, start));
  EXPECT_THAT(tokenizer->Encode("<s>[U]", false), ElementsAre('<', 's', '>', user));
  EXPECT_EQ(tokenizer->TokenBytes(start, false), "");
  EXPECT_EQ(tokenizer->TokenBytes(start, true), "<s>");
  EXPECT_EQ(tokenizer->TokenBytes(user, false), "[U]");
  EXPECT_TRUE(tokenizer->IsControl(start));
  EXPECT_FALSE(tokenizer->IsControl(user));
  EXPECT_EQ(tokenizer->FindToken("<s>"), start);
  EXPECT_EQ(tokenizer->FindToken("<t>"), std::nullopt);
}

TEST(Tokenizer, NeverMergesPlainTextIntoAControlToken) {
  Vocabulary vocabulary = ByteVocabulary("llama-bpe");  // takes whole words as tokens
  vocabulary.merges.push_back("e n");
  vocabulary.merges.push_back("en d");
  const int32_t end = AddToken(vocabulary, "end", TokenType::kControl);
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_THAT(tokenizer->Encode("end", false), ElementsAre('e', 'n', 'd'));
  EXPECT_THAT(tokenizer->Encode("end", true), ElementsAre(end));
}

TEST(Tokenizer, TakesWholeWordsWhereThePreTokenizerSaysSo) {
  Vocabulary vocabulary = ByteVocabulary("llama-bpe");
  const int32_t word = AddToken(vocabulary, "word");
  const int32_t space_word = AddToken(vocabulary, "\xC4\xA0word");  // the alphabet's space
  EXPECT_THAT(MustCreate(vocabulary)->Encode("word word", false), ElementsAre(word, space_word));
  EXPECT_TRUE(MustCreate(vocabulary)->add_bos());
  vocabulary.pre = "gpt-2";
  EXPECT_EQ(MustCreate(vocabulary)->Encode("word", false).size(), 4u);
  EXPECT_FALSE(MustCreate(vocabulary)->add_bos());
}

TEST(Tokenizer, KeepsEveryByteOfAnyText) {
  std::mt19937 random(7);
  for (const char* pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-coder",
                          "deepseek-v3", "default", "falcon", "gpt-4o", "tekken", "kimi-k2", "bailingmoe",
                          "viking", "seed-coder", "minicpm5"}) {
    Vocabulary vocabulary = ByteVocabulary(pre);
    AddMerge(vocabulary, "a", "a");
    const auto tokenizer = MustCreate(std::move(vocabulary));
    for (int i = 0; i < 50; ++i) {
      const std::string text = RandomBytes(random, random() % 200);
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), text) << pre;
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, true), true), text) << pre;
    }
  }
}

TEST(Tokenizer, EncodesLongRepetitionsWithoutQuadraticTime) {
  for (const char* pre : {"smollm", "llama-bpe", "deepseek-llm", "deepseek-coder", "deepseek-v3", "default",
                          "gpt-4o", "tekken", "kimi-k2", "bailingmoe", "viking", "minicpm5"}) {
    Vocabulary vocabulary = ByteVocabulary(pre);
    std::string run = "a";
    for (int i = 0; i < 6; ++i, run += run) AddMerge(vocabulary, run, run);
    const auto tokenizer = MustCreate(std::move(vocabulary));
    for (const char* unit : {"a", " ", "\n", " \n", "7", "'", "語", "\xFF", "\xE2\x82", "\x01", "[", " a"}) {
      std::string text;
      while (text.size() < (1u << 18)) text += unit;
      text += "x";
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, true), true), text) << pre << " " << unit;
    }
  }
}

TEST(Tokenizer, IsThreadSafe) {
  Vocabulary vocabulary = ByteVocabulary();
  AddMerge(vocabulary, "a", "b");
  const auto tokenizer = MustCreate(std::move(vocabulary));
  const std::string text = "ab ab 12 'll é \xFF" + std::string(100, 'a');
  const auto expected = tokenizer->Encode(text, false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) EXPECT_EQ(tokenizer->Encode(text, false), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, ListsEverythingThatEndsAGeneration) {
  Vocabulary vocabulary = ByteVocabulary();
  const int32_t text = AddToken(vocabulary, "<|endoftext|>", TokenType::kControl);
  const int32_t end = AddToken(vocabulary, "<|im_end|>", TokenType::kControl);
  AddToken(vocabulary, "<|eot_id|>", TokenType::kNormal);  // only a control token counts
  vocabulary.eos = end;
  vocabulary.eot = 'x';
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_THAT(tokenizer->stop_ids(), ElementsAre(end, 'x', text));
  EXPECT_EQ(tokenizer->eos(), end);
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
}

TEST(Tokenizer, ParsesEndTokensThatAreCalledUserDefinedOnlyWhenAsked) {
  Vocabulary vocabulary = ByteVocabulary();
  const int32_t end = AddToken(vocabulary, "<|im_end|>", TokenType::kUserDefined);
  const int32_t tag = AddToken(vocabulary, "</s>", TokenType::kUserDefined);
  const auto tokenizer = MustCreate(std::move(vocabulary));
  EXPECT_EQ(tokenizer->Encode("<|im_end|></s>", false).size(), 14u);
  EXPECT_THAT(tokenizer->Encode("<|im_end|></s>", true), ElementsAre(end, tag));
  EXPECT_THAT(tokenizer->stop_ids(), ElementsAre(end));
  EXPECT_EQ(tokenizer->TokenBytes(tag, false), "</s>");
}

TEST(Tokenizer, GivesNothingForIdsOutOfRange) {
  const auto tokenizer = MustCreate(ByteVocabulary());
  EXPECT_EQ(tokenizer->n_vocab(), 256u);
  EXPECT_EQ(tokenizer->TokenBytes(-1, true), "");
  EXPECT_EQ(tokenizer->TokenBytes(256, true), "");
  EXPECT_FALSE(tokenizer->IsControl(1 << 30));
}

TEST(Tokenizer, NamesWhatItDoesNotSupport) {
  Vocabulary vocabulary = ByteVocabulary();
  for (const auto& [model, kind] :
       {std::pair("bert", " (WordPiece)"), std::pair("t5", " (SentencePiece unigram)"),
        std::pair("rwkv", " (RWKV)"), std::pair("martian", "")}) {
    vocabulary.model = model;
    const absl::Status status = Tokenizer::Create(vocabulary).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(MessageOf(status),
                HasSubstr(fmt::format("\"{}\"{} is not supported; supported: gpt2, llama", model, kind)));
  }
  const absl::Status status = Tokenizer::Create(ByteVocabulary("martian")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(status), HasSubstr("\"martian\" is not supported"));
  EXPECT_THAT(MessageOf(status), HasSubstr("gpt-2, "));
  EXPECT_EQ(Tokenizer::Create(ByteVocabulary("")).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Tokenizer, RefusesAVocabularyThatDoesNotFitTogether) {
  const auto refuses = [](Vocabulary vocabulary, const char* what) {
    const absl::Status status = Tokenizer::Create(std::move(vocabulary)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(MessageOf(status), HasSubstr(what));
  };
  Vocabulary vocabulary = ByteVocabulary();
  vocabulary.eos = 256;
  refuses(vocabulary, "eos_token_id: 256");
  vocabulary = ByteVocabulary();
  vocabulary.types.pop_back();
  refuses(vocabulary, "255 entries for 256 tokens");
  for (const char* merge : {"ab", "a ", " ", ""}) {
    vocabulary = ByteVocabulary();
    vocabulary.merges = {"a b", merge};
    refuses(vocabulary, "merges[1]");
  }
  vocabulary = ByteVocabulary();
  vocabulary.tokens.clear();
  vocabulary.types.clear();
  refuses(vocabulary, "tokens is empty");
}

TEST(PreTokenizer, SplitsDigitsOneByOneForSmollm) {
  EXPECT_THAT(Pieces("smollm", "in 2024!"), ElementsAre("in", " ", "2", "0", "2", "4", "!"));
  EXPECT_THAT(Pieces("gpt-2", "in 2024!"), ElementsAre("in", " 2024", "!"));
  EXPECT_THAT(Pieces("llama-bpe", "in 2024!"), ElementsAre("in", " ", "202", "4", "!"));
  EXPECT_THAT(Pieces("qwen2", "I'LL"), ElementsAre("I", "'LL"));
  EXPECT_THAT(Pieces("gpt-2", "I'LL"), ElementsAre("I", "'", "LL"));
}

TEST(PreTokenizer, PartsWordsWhereCapitalsBegin) {
  EXPECT_THAT(Pieces("gpt-4o", "helloWorld's 1234 //\n"),
              ElementsAre("hello", "World's", " ", "123", "4", " //\n"));
  EXPECT_THAT(Pieces("tekken", "helloWorld's 12"), ElementsAre("hello", "World", "'s", " ", "1", "2"));
  EXPECT_THAT(Pieces("gpt-4o", "e\u0301'S"), ElementsAre("e\u0301'S"));  // a mark belongs to its letter
  EXPECT_THAT(Pieces("kimi-k2", "ab中文ab、中〇"), ElementsAre("ab", "中文", "ab", "、", "中〇"));
}

TEST(PreTokenizer, TakesUnicodeWhiteSpaceAndNothingElse) {
  EXPECT_THAT(Pieces("gpt-2", "\xC2\xA0\xE3\x80\x80\xC2\x85"), ElementsAre("\xC2\xA0\xE3\x80\x80\xC2\x85"));
  EXPECT_THAT(Pieces("gpt-2", "!\xE1\xA0\x8E!"), ElementsAre("!\xE1\xA0\x8E!"));  // U+180E is not white space
}

TEST(PreTokenizer, KeepsInvalidBytesInPiecesOfTheirOwn) {
  EXPECT_THAT(Pieces("gpt-2",
                     "a\xFF\xC0"
                     "b\xE2\x82"),
              ElementsAre("a", "\xFF\xC0", "b", "\xE2\x82"));
}

}  // namespace
}  // namespace spillway
