// What the writer writes, the reader reads back; the identity is the digest it is said to be.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstring>

#include "engine/gguf/reader.h"
#include "engine/gguf/writer.h"
#include "tests/support/files.h"
#include "tests/support/random_data.h"
#include "tests/support/tiny_model.h"

namespace spillway::test {
namespace {

std::vector<std::byte> BytesOf(const GgufTensor& tensor) { return {tensor.data.begin(), tensor.data.end()}; }

TEST(GgufRoundTrip, KeepsTensorsOfEveryFormatAtEveryAlignmentAndVersion) {
  const TempDir dir;
  for (const uint32_t version : {2u, 3u}) {
    for (const uint64_t alignment : {8u, 32u, 64u, 4096u}) {
      GgufWriter writer({.version = version, .alignment = alignment});
      for (const FormatInfo& format : AllFormats()) {
        const uint64_t row = format.block_elements;
        const auto data = RandomBlocks(format.type, row * 3, 5);
        ASSERT_TRUE(writer.AddTensor(format.name, format.type, std::vector<uint64_t>{row, 3}, data).ok());
      }
      ASSERT_TRUE(writer.Write(dir.File("m.gguf")).ok());
      const auto file = GgufFile::Open(dir.File("m.gguf"));
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((*file)->version(), version);
      ASSERT_EQ((*file)->tensors().size(), AllFormats().size());
      for (const FormatInfo& format : AllFormats()) {
        const GgufTensor* tensor = (*file)->FindTensor(format.name);
        ASSERT_NE(tensor, nullptr);
        EXPECT_EQ(tensor->type, format.type);
        EXPECT_EQ(tensor->n_dims, 2);
        EXPECT_EQ(tensor->Rows(), 3u);
        EXPECT_EQ(tensor->file_offset % alignment, 0u);
        EXPECT_EQ(BytesOf(*tensor), RandomBlocks(format.type, uint64_t{format.block_elements} * 3, 5));
      }
    }
  }
}

TEST(GgufRoundTrip, IdentityIsTheDigestOfHeaderAndSizes) {
  const TempDir dir;
  const auto path = WriteTinyModel({}, dir.File("m.gguf"));
  ASSERT_TRUE(path.ok()) << path.status();
  const auto file = GgufFile::Open(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string bytes = ReadFile(*path);
  std::string hashed = bytes.substr(0, (*file)->tensors()[0].file_offset);
  const uint64_t size = bytes.size();
  hashed.append(reinterpret_cast<const char*>(&size), sizeof(size));
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(hashed.data()), hashed.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  EXPECT_EQ((*file)->identity(), hex);
  EXPECT_EQ((*file)->file_bytes(), size);
  EXPECT_EQ((*file)->path(), *path);
}

TEST(GgufRoundTrip, IdentityChangesWithMetadataButNotWithThePath) {
  const TempDir dir;
  TinyModel model;
  const auto a = GgufFile::Open(*WriteTinyModel(model, dir.File("a.gguf")));
  const auto b = GgufFile::Open(*WriteTinyModel(model, dir.File("b.gguf")));
  model.norm_eps = 1e-6f;
  const auto c = GgufFile::Open(*WriteTinyModel(model, dir.File("c.gguf")));
  EXPECT_EQ((*a)->identity(), (*b)->identity());
  EXPECT_NE((*a)->identity(), (*c)->identity());
}

TEST(GgufWriter, RefusesTensorsThatDoNotFit) {
  GgufWriter writer;
  const std::vector<std::byte> data(32);
  const std::vector<uint64_t> dims = {8};
  EXPECT_TRUE(writer.AddTensor("a", TensorType::kF32, dims, data).ok());
  EXPECT_FALSE(writer.AddTensor("a", TensorType::kF32, dims, data).ok());
  EXPECT_FALSE(writer.AddTensor("b", TensorType::kF16, dims, data).ok());
  EXPECT_FALSE(writer.AddTensor("b", TensorType::kQ4_0, dims, data).ok());
  EXPECT_FALSE(writer.AddTensor("b", TensorType::kF32, {}, data).ok());
  EXPECT_FALSE(writer.AddTensor(std::string(64, 'b'), TensorType::kF32, dims, data).ok());
  EXPECT_EQ(writer.AddTensorFromFloats("b", TensorType::kIQ4_XS, dims, {}).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(writer.Write("/nonexistent/folder/m.gguf").ok());
}

TEST(GgufWriter, SettingAKeyAgainReplacesIt) {
  const TempDir dir;
  GgufWriter writer;
  writer.SetU32("key", 1);
  writer.SetString("gone", "x");
  writer.SetString("key", "two");
  writer.Remove("gone");
  ASSERT_TRUE(writer.Write(dir.File("m.gguf")).ok());
  const auto file = GgufFile::Open(dir.File("m.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().size(), 1u);
  EXPECT_EQ(**(*file)->GetString("key"), "two");
}

}  // namespace
}  // namespace spillway::test
