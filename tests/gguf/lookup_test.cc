// Typed look-ups: absent keys are nullopt, fitting types convert, others are errors that name key and value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/gguf/reader.h"
#include "engine/gguf/writer.h"
#include "tests/support/files.h"

namespace spillway::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GgufLookup : public ::testing::Test {
 protected:
  void SetUp() override {
    GgufWriter writer;
    writer.SetU8("u8", 8);
    writer.SetI8("i8", -8);
    writer.SetU16("u16", 16);
    writer.SetI16("i16", -16);
    writer.SetU32("u32", 32);
    writer.SetI32("i32", 32);
    writer.SetU64("u64", UINT64_MAX);
    writer.SetI64("i64", INT64_MIN);
    writer.SetF32("f32", 0.5f);
    writer.SetF64("f64", 0.1);
    writer.SetBool("bool", true);
    writer.SetString("string", "text");
    writer.SetU32s("u32s", std::vector<uint32_t>{1, 2});
    writer.SetI32s("i32s", std::vector<int32_t>{-1, 2});
    writer.SetF32s("f32s", std::vector<float>{0.5f, 2.0f});
    writer.SetBools("bools", {true, false});
    writer.SetStrings("strings", std::vector<std::string>{"a", ""});
    writer.SetStrings("empty", {});
    ASSERT_TRUE(writer.Write(dir_.File("m.gguf")).ok());
    auto file = GgufFile::Open(dir_.File("m.gguf"));
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  TempDir dir_;
  std::unique_ptr<GgufFile> file_;
};

TEST_F(GgufLookup, AbsentKeysAreNullopt) {
  EXPECT_EQ(*file_->GetUint("absent"), std::nullopt);
  EXPECT_EQ(*file_->GetFloat("absent"), std::nullopt);
  EXPECT_EQ(*file_->GetBool("absent"), std::nullopt);
  EXPECT_EQ(*file_->GetString("absent"), std::nullopt);
  EXPECT_EQ(*file_->GetInts("absent"), std::nullopt);
  EXPECT_EQ(*file_->GetFloats("absent"), std::nullopt);
  EXPECT_EQ(file_->FindStrings("absent"), nullptr);
  EXPECT_EQ(file_->FindTensor("absent"), nullptr);
}

TEST_F(GgufLookup, IntegersOfEveryWidthAreWidened) {
  EXPECT_EQ(**file_->GetUint("u8"), 8u);
  EXPECT_EQ(**file_->GetUint("u16"), 16u);
  EXPECT_EQ(**file_->GetUint("u32"), 32u);
  EXPECT_EQ(**file_->GetUint("i32"), 32u);
  EXPECT_EQ(**file_->GetUint("u64"), UINT64_MAX);
  EXPECT_EQ(**file_->GetFloat("i16"), -16.0);
  EXPECT_EQ(**file_->GetFloat("f32"), 0.5);
  EXPECT_EQ(**file_->GetFloat("f64"), 0.1);
  EXPECT_EQ(**file_->GetBool("bool"), true);
  EXPECT_EQ(**file_->GetString("string"), "text");
}

TEST_F(GgufLookup, ArraysConvertWithinTheirKind) {
  EXPECT_THAT(**file_->GetInts("u32s"), ElementsAre(1, 2));
  EXPECT_THAT(**file_->GetInts("i32s"), ElementsAre(-1, 2));
  EXPECT_THAT(**file_->GetInts("bools"), ElementsAre(1, 0));
  EXPECT_THAT(**file_->GetFloats("f32s"), ElementsAre(0.5, 2.0));
  EXPECT_THAT(**file_->GetFloats("i32s"), ElementsAre(-1.0, 2.0));
  EXPECT_THAT(*file_->FindStrings("strings"), ElementsAre("a", ""));
  EXPECT_TRUE(file_->FindStrings("empty")->empty());
  EXPECT_EQ(file_->FindStrings("u32s"), nullptr);
}

TEST_F(GgufLookup, TypesThatDoNotFitAreErrors) {
  for (const char* key : {"i8", "i64", "f32", "bool", "string", "u32s"}) {
    SCOPED_TRACE(key);
    const auto value = file_->GetUint(key);
    EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(value.status()), HasSubstr(key));
  }
  EXPECT_FALSE(file_->GetFloat("bool").ok());
  EXPECT_FALSE(file_->GetBool("u8").ok());
  EXPECT_FALSE(file_->GetString("u8").ok());
  EXPECT_FALSE(file_->GetInts("f32s").ok());
  EXPECT_FALSE(file_->GetInts("strings").ok());
  EXPECT_FALSE(file_->GetInts("u32").ok());
  EXPECT_FALSE(file_->GetFloats("bools").ok());
  EXPECT_THAT(MessageOf(file_->GetString("i8").status()), HasSubstr("the integer -8"));
  EXPECT_THAT(MessageOf(file_->GetBool("strings").status()), HasSubstr("an array of 2 strings"));
}

}  // namespace
}  // namespace spillway::test
