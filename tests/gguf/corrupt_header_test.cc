// What the reader must refuse before the tensor infos: no GGUF at all, wrong versions, impossible counts, bad
// metadata. Each error names the file, the place and the value.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/base/status.h"
#include "engine/gguf/reader.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/files.h"

namespace spillway::test {
namespace {

constexpr uint64_t kTooLong = (uint64_t{1} << 30) + 1;

// A file whose only metadata entry is `entry`, encoded by hand.
std::string WithEntry(const RawBytes& entry) {
  RawGguf file = GoodGguf();
  file.entries = {entry.str()};
  return file.Encode();
}

RawBytes Entry(int32_t type) { return RawBytes().Text("key").Put(type); }

TEST(GgufHeader, AGoodFileOpens) {
  ExpectOpens(GoodGguf().Encode());
  RawGguf file = GoodGguf();
  file.version = 2;
  ExpectOpens(file.Encode());
}

TEST(GgufHeader, FilesThatCannotBeMappedAreNamed) {
  const TempDir dir;
  EXPECT_EQ(GgufFile::Open(dir.File("absent.gguf")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(GgufFile::Open(dir.path().string()).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(dir.File("pipe.gguf").c_str(), 0600), 0);
  EXPECT_EQ(GgufFile::Open(dir.File("pipe.gguf")).status().code(), absl::StatusCode::kInvalidArgument);
  ExpectRefused("", {"is empty"});
}

TEST(GgufHeader, OtherKindsOfFilesAreNotGguf) {
  ExpectRefused("GG", {"not a GGUF file", "'GG'"});
  ExpectRefused(std::string("\x7f\x45LF\0\0\0\0", 8), {"not a GGUF file", "begins with '\\x7f"});
  ExpectRefused("version https://git-lfs.github.com/spec/v1\n", {"Git LFS pointer", "git lfs pull"});
}

TEST(GgufHeader, OnlyLittleEndianVersions2And3) {
  RawGguf file = GoodGguf();
  file.version = 1;
  ExpectRefused(file.Encode(), {"version 1 is not supported"});
  file.version = 4;
  ExpectRefused(file.Encode(), {"version 4 is not supported"});
  file.version = 0;
  ExpectRefused(file.Encode(), {"version 0 is not supported"});
  file.version = 0x03000000;
  ExpectRefused(file.Encode(), {"big-endian", "0x03000000"});
  file.version = 0x02000000;
  ExpectRefused(file.Encode(), {"big-endian"});
}

TEST(GgufHeader, EveryTruncationIsRefused) {
  const std::string good = GoodGguf().Encode();
  for (size_t size = 1; size < good.size(); ++size) {
    SCOPED_TRACE(size);
    ExpectRefused(good.substr(0, size), {});
  }
}

TEST(GgufHeader, CountsThatTheFileCannotHoldAreRefused) {
  for (const int64_t count : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 32, int64_t{1000}}) {
    SCOPED_TRACE(count);
    const std::string text = std::to_string(count);
    ExpectRefused(RawBytes().Raw("GGUF").Put<uint32_t>(3).Put<int64_t>(count).Put<int64_t>(0).str(),
                  {"number of tensors is " + text});
    ExpectRefused(RawBytes().Raw("GGUF").Put<uint32_t>(3).Put<int64_t>(0).Put<int64_t>(count).str(),
                  {"number of metadata entries is " + text});
  }
}

TEST(GgufMetadata, BadStringsAreRefused) {
  ExpectRefused(WithEntry(RawBytes().Put<uint64_t>(1000)), {"a metadata key needs 1000 bytes", "truncated"});
  ExpectRefused(WithEntry(RawBytes().Put<uint64_t>(kTooLong)), {"metadata key", "1073741825"});
  ExpectRefused(WithEntry(RawBytes().Put<uint64_t>(UINT64_MAX)), {"metadata key", "18446744073709551615"});
  ExpectRefused(WithEntry(Entry(8).Put<uint64_t>(5000)), {"value of key 'key' needs 5000 bytes"});
  ExpectRefused(WithEntry(Entry(8).Put<uint64_t>(kTooLong)), {"value of key 'key'", "1073741825"});
  ExpectRefused(WithEntry(RawBytes().Text(std::string(70000, 'k')).Put<int32_t>(0).Put<uint8_t>(1)),
                {"70000 bytes long"});
}

TEST(GgufMetadata, BadTypesAndBoolsAreRefused) {
  ExpectRefused(WithEntry(Entry(13).Put<uint64_t>(0)), {"value type of key 'key' is 13"});
  ExpectRefused(WithEntry(Entry(-1).Put<uint64_t>(0)), {"value type of key 'key' is -1"});
  ExpectRefused(WithEntry(Entry(7).Put<uint8_t>(2)), {"bool in key 'key' is 2"});
}

TEST(GgufMetadata, BadArraysAreRefused) {
  const auto array = [](int32_t type, uint64_t count) { return Entry(9).Put(type).Put(count); };
  ExpectRefused(WithEntry(array(9, 1)), {"array of arrays"});
  ExpectRefused(WithEntry(array(13, 1)), {"array element type of key 'key' is 13"});
  ExpectRefused(WithEntry(array(-2, 1)), {"array element type of key 'key' is -2"});
  ExpectRefused(WithEntry(array(0, kTooLong)), {"1073741825 elements"});
  ExpectRefused(WithEntry(array(10, UINT64_MAX)), {"18446744073709551615 elements"});
  for (const int32_t type : {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12}) {
    SCOPED_TRACE(type);
    ExpectRefused(WithEntry(array(type, 5000)), {"array of 5000 elements of key 'key'", "truncated"});
  }
  ExpectRefused(WithEntry(array(7, 2).Put<uint8_t>(1).Put<uint8_t>(7)), {"bool in key 'key' is 7"});
  ExpectRefused(WithEntry(array(8, 2).Text("one").Put<uint64_t>(9999)),
                {"string in an array needs 9999 bytes"});
}

TEST(GgufMetadata, DuplicateKeysAreRefused) {
  RawGguf file = GoodGguf();
  file.entries = {U32Entry("a", 1), U32Entry("b", 2), U32Entry("a", 3)};
  ExpectRefused(file.Encode(), {"key 'a' appears twice"});
}

TEST(GgufMetadata, AlignmentMustBeAPowerOfTwo) {
  for (const uint32_t alignment : {0u, 3u, 4u, 33u, 0x80000000u}) {
    SCOPED_TRACE(alignment);
    RawGguf file = GoodGguf();
    file.entries = {U32Entry("general.alignment", alignment)};
    ExpectRefused(file.Encode(), {"general.alignment is the integer " + std::to_string(alignment)});
  }
  RawGguf file = GoodGguf();
  file.entries = {RawBytes().Text("general.alignment").Put<int32_t>(8).Text("32").str()};
  ExpectRefused(file.Encode(), {"general.alignment is the string '32'"});
  file.entries = {RawBytes().Text("general.alignment").Put<int32_t>(5).Put<int32_t>(-32).str()};
  ExpectRefused(file.Encode(), {"general.alignment is the integer -32"});
}

TEST(GgufMetadata, MessagesEscapeAndShortenWhatTheFileSays) {
  RawGguf file = GoodGguf();
  const std::string key = "\x1b[31m\n" + std::string(500, 'x');
  file.entries = {U32Entry(key, 1), U32Entry(key, 2)};
  const TempDir dir;
  WriteFile(dir.File("bad.gguf"), file.Encode());
  const std::string message = MessageOf(GgufFile::Open(dir.File("bad.gguf")).status());
  EXPECT_NE(message.find("\\x1b[31m\\n"), std::string::npos) << message;
  EXPECT_LT(message.size(), 400u) << message;
}

}  // namespace
}  // namespace spillway::test
