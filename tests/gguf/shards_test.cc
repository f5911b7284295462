// Sharded models: opened through the first shard, complete or refused with the shard that is wrong.
#include "engine/gguf/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/gguf/reader.h"
#include "tests/support/files.h"
#include "tests/support/tiny_model.h"

namespace spillway::test {
namespace {

using ::testing::HasSubstr;

// Writes a tiny model in `count` shards below `dir`; returns the first path.
std::string WriteShardedModel(const TempDir& dir, uint32_t count, const TinyModel& model = {},
                              const std::string& stem = "m") {
  auto writer = MakeTinyModel(model);
  EXPECT_TRUE(writer.ok()) << writer.status();
  const auto path = writer->WriteShards(dir.File(stem), count);
  EXPECT_TRUE(path.ok()) << path.status();
  return *path;
}

TEST(GgufShards, NamesAreParsedStrictly) {
  const auto name = ParseShardName("a/b-00002-of-00010.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "a/b");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 10u);
  EXPECT_EQ(ShardPath(*name, 3), "a/b-00003-of-00010.gguf");
  for (const char* path : {"b.gguf", "b-00000-of-00002.gguf", "b-00003-of-00002.gguf", "b-1-of-2.gguf",
                           "b-0000x-of-00002.gguf", "b_00001-of-00002.gguf", "b-00001-of-00002.bin", ""}) {
    EXPECT_FALSE(ParseShardName(path).has_value()) << path;
  }
}

TEST(GgufShards, OpenAsOneModelWithTheSameTensors) {
  const TempDir dir;
  const auto whole = GgufFile::Open(*WriteTinyModel({}, dir.File("whole.gguf")));
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const uint32_t count : {1u, 2u, 3u, 20u}) {
    SCOPED_TRACE(count);
    const auto file = GgufFile::Open(WriteShardedModel(dir, count));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->tensors().size(), (*whole)->tensors().size());
    for (const GgufTensor& tensor : (*whole)->tensors()) {
      const GgufTensor* other = (*file)->FindTensor(tensor.name);
      ASSERT_NE(other, nullptr);
      EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other->data.begin(), other->data.end()));
      EXPECT_LT(other->shard, static_cast<int>(count));
    }
    EXPECT_EQ((*file)->tensors().back().shard, static_cast<int>(count) - 1);
    EXPECT_EQ(**(*file)->GetString("general.architecture"), "llama");
    EXPECT_NE((*file)->identity(), (*whole)->identity());
  }
}

TEST(GgufShards, OpeningAnotherThanTheFirstNamesTheFirst) {
  const TempDir dir;
  const std::string first = WriteShardedModel(dir, 3);
  for (const char* other : {"m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto file = GgufFile::Open(dir.File(other));
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(file.status()), HasSubstr(first));
  }
}

TEST(GgufShards, AMissingShardIsNamed) {
  const TempDir dir;
  const std::string first = WriteShardedModel(dir, 3);
  std::filesystem::remove(dir.File("m-00002-of-00003.gguf"));
  const auto file = GgufFile::Open(first);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(file.status()), HasSubstr("m-00002-of-00003.gguf"));
}

TEST(GgufShards, NamesThatContradictTheKeysAreRefused) {
  const TempDir dir;
  const std::string first = WriteShardedModel(dir, 2);
  const auto refused = [&](const std::string& path, const std::string& part) {
    const auto file = GgufFile::Open(path);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
    EXPECT_THAT(MessageOf(file.status()), HasSubstr(part));
  };
  std::filesystem::copy(first, dir.File("renamed.gguf"));
  refused(dir.File("renamed.gguf"), "one of 2 shards");
  std::filesystem::copy(first, dir.File("m-00001-of-00003.gguf"));
  refused(dir.File("m-00001-of-00003.gguf"), "split.count is 2");
  // The first shard once more in place of the second.
  std::filesystem::copy(first, dir.File("m-00002-of-00002.gguf"),
                        std::filesystem::copy_options::overwrite_existing);
  refused(first, "split.no is 0");
}

TEST(GgufShards, ShardsOfAnotherModelAreRefused) {
  const TempDir dir;
  const std::string first = WriteShardedModel(dir, 2);
  TinyModel other;
  other.n_layer = 4;
  WriteShardedModel(dir, 2, other, "other");
  std::filesystem::copy(dir.File("other-00002-of-00002.gguf"), dir.File("m-00002-of-00002.gguf"),
                        std::filesystem::copy_options::overwrite_existing);
  const auto file = GgufFile::Open(first);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(file.status()), HasSubstr("split.tensors.count"));
}

TEST(GgufShards, ATensorInTwoShardsIsRefused) {
  const TempDir dir;
  const std::vector<std::byte> data(32);
  for (const uint16_t number : {0, 1}) {
    GgufWriter writer;
    writer.SetU16("split.no", number);
    writer.SetU16("split.count", 2);
    ASSERT_TRUE(writer.AddTensor("same", TensorType::kF32, std::vector<uint64_t>{8}, data).ok());
    ASSERT_TRUE(writer.Write(dir.File(number == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf")).ok());
  }
  const auto file = GgufFile::Open(dir.File("m-00001-of-00002.gguf"));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(file.status()), HasSubstr("'same' is in two shards"));
}

}  // namespace
}  // namespace spillway::test
