// Files made by llama.cpp's own tools, and the real SmolLM2: every one opens, with the tensors its manifest
// lists.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/gguf/reader.h"
#include "tests/support/files.h"
#include "tests/support/random_data.h"

namespace spillway::test {
namespace {

std::map<std::string, int> CountTypes(const GgufFile& file) {
  std::map<std::string, int> counts;
  for (const GgufTensor& tensor : file.tensors()) ++counts[std::string(FormatOf(tensor.type).name)];
  return counts;
}

// All values finite, and the data within the file.
void CheckValues(const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    ASSERT_EQ(tensor.data.size(), tensor.bytes);
    ASSERT_LE(tensor.file_offset + tensor.bytes, file.file_bytes());
    std::vector<float> row(tensor.dims[0]);
    FormatOf(tensor.type).dequantize(tensor.data.data(), row.data(), row.size());
    for (const float value : row) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
  }
}

TEST(GgufGolden, EveryModelOpensWithTheTensorTypesOfItsManifest) {
  const auto cases = CasesDir();
  if (!cases) GTEST_SKIP() << kNoCases;
  int opened = 0;
  for (const auto& folder : std::filesystem::directory_iterator(*cases / "models")) {
    if (!folder.is_directory()) continue;
    const auto manifest = nlohmann::json::parse(ReadFile(folder.path() / "manifest.json"));
    for (const auto& entry : manifest["files"]) {
      const auto path = folder.path() / entry["file"].get<std::string>();
      SCOPED_TRACE(path);
      const auto file = GgufFile::Open(path.string());
      ASSERT_TRUE(file.ok()) << file.status();
      const auto expected = entry["tensor_types"].get<std::map<std::string, int>>();
      EXPECT_EQ(CountTypes(**file), expected);
      EXPECT_EQ((*file)->file_bytes(), entry["bytes"].get<uint64_t>());
      CheckValues(**file);
      ++opened;
    }
  }
  EXPECT_GT(opened, 0);
}

TEST(GgufGolden, EveryVocabularyFileOpens) {
  const auto cases = CasesDir();
  if (!cases) GTEST_SKIP() << kNoCases;
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*cases / "tokenizer")) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::Open(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_NE((*file)->FindStrings("tokenizer.ggml.tokens"), nullptr);
    ++opened;
  }
  EXPECT_GT(opened, 0);
}

TEST(GgufGolden, TheRealSmolLm2Opens) {
  const auto path = SmolLm2Path();
  if (!path) GTEST_SKIP() << kNoSmolLm2;
  const auto file = GgufFile::Open(path->string());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->file_bytes(), 98362432u);
  EXPECT_EQ((*file)->tensors().size(), 272u);
  EXPECT_EQ(**(*file)->GetUint("llama.block_count"), 30u);
  EXPECT_EQ((*file)->FindStrings("tokenizer.ggml.tokens")->size(), 49152u);
  CheckValues(**file);
}

}  // namespace
}  // namespace spillway::test
