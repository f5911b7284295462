// Encoding by hand, and the two expectations of the negative tests.
#include "tests/gguf/raw_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/gguf/reader.h"
#include "tests/support/files.h"

namespace spillway::test {

std::string U32Entry(std::string_view key, uint32_t value) {
  return RawBytes().Text(key).Put<int32_t>(4).Put(value).str();
}

std::string TensorInfo(const RawTensor& tensor) {
  RawBytes bytes;
  bytes.Text(tensor.name).Put(static_cast<uint32_t>(tensor.dims.size()));
  for (const int64_t dim : tensor.dims) bytes.Put(dim);
  return bytes.Put(tensor.type).Put(tensor.offset).str();
}

std::string RawGguf::Encode() const {
  RawBytes bytes;
  bytes.Raw(magic).Put(version).Put<int64_t>(infos.size()).Put<int64_t>(entries.size());
  for (const std::string& entry : entries) bytes.Raw(entry);
  for (const std::string& info : infos) bytes.Raw(info);
  std::string out = bytes.str();
  out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
  out.append(data_bytes, '\x11');
  return out;
}

RawGguf GoodGguf() {
  RawGguf file;
  file.entries = {U32Entry("answer", 42)};
  file.infos = {TensorInfo({"first", {8}, 0, 0}), TensorInfo({"second", {4, 2}, 0, 32})};
  file.data_bytes = 64;
  return file;
}

void ExpectRefused(std::string_view bytes, absl::StatusCode code, const std::vector<std::string>& parts) {
  const TempDir dir;
  const std::string path = dir.File("bad.gguf");
  WriteFile(path, bytes);
  const auto file = GgufFile::Open(path);
  ASSERT_FALSE(file.ok()) << "a file that must be refused was opened";
  EXPECT_EQ(file.status().code(), code) << file.status();
  const std::string message = MessageOf(file.status());
  EXPECT_THAT(message, ::testing::StartsWith(path + ": "));
  for (const std::string& part : parts) EXPECT_THAT(message, ::testing::HasSubstr(part));
}

void ExpectRefused(std::string_view bytes, const std::vector<std::string>& parts) {
  ExpectRefused(bytes, absl::StatusCode::kInvalidArgument, parts);
}

void ExpectOpens(std::string_view bytes) {
  const TempDir dir;
  WriteFile(dir.File("good.gguf"), bytes);
  const auto file = GgufFile::Open(dir.File("good.gguf"));
  EXPECT_TRUE(file.ok()) << file.status();
}

}  // namespace spillway::test
