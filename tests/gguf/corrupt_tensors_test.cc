// What the reader must refuse in tensor infos and their placement. Each error names the tensor and the value.
#include <gtest/gtest.h>

#include "tests/gguf/raw_gguf.h"

namespace spillway::test {
namespace {

// A file with these tensors and plenty of data.
std::string WithTensors(const std::vector<RawTensor>& tensors) {
  RawGguf file;
  for (const RawTensor& tensor : tensors) file.infos.push_back(TensorInfo(tensor));
  file.data_bytes = 4096;
  return file.Encode();
}

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;
constexpr uint32_t kQ4_K = 12;

TEST(GgufTensors, NamesAreUniqueAndShorterThan64Bytes) {
  ExpectRefused(WithTensors({{"same", {8}, kF32, 0}, {"same", {8}, kF32, 32}}),
                {"name 'same' appears twice"});
  ExpectOpens(WithTensors({{std::string(63, 'n'), {8}, kF32, 0}}));
  ExpectRefused(WithTensors({{std::string(64, 'n'), {8}, kF32, 0}}), {"64 bytes long", "63"});
}

TEST(GgufTensors, DimensionsArePositiveAndAtMostFour) {
  ExpectRefused(WithTensors({{"t", {}, kF32, 0}}), {"('t'): 0 dimensions"});
  ExpectRefused(WithTensors({{"t", {1, 1, 1, 1, 1}, kF32, 0}}), {"('t'): 5 dimensions"});
  ExpectOpens(WithTensors({{"t", {2, 2, 2, 2}, kF32, 0}}));
  ExpectRefused(WithTensors({{"t", {0}, kF32, 0}}), {"('t'): dimension 0 is 0"});
  ExpectRefused(WithTensors({{"t", {4, 0}, kF32, 0}}), {"('t'): dimension 1 is 0"});
  ExpectRefused(WithTensors({{"t", {4, -4}, kF32, 0}}), {"('t'): dimension 1 is -4"});
}

TEST(GgufTensors, ProductsThatOverflowAreRefused) {
  const int64_t big = int64_t{1} << 32;
  ExpectRefused(WithTensors({{"t", {big, big}, kF32, 0}}), {"('t')", "overflow 63 bits"});
  ExpectRefused(WithTensors({{"t", {INT64_MAX, 2}, kF32, 0}}), {"('t')", "overflow 63 bits"});
  ExpectRefused(WithTensors({{"t", {big, 2, big / 2, 4}, kF32, 0}}), {"('t')", "overflow 63 bits"});
  // The elements still fit, four bytes each do not.
  ExpectRefused(WithTensors({{"t", {big, big / 4}, kF32, 0}}), {"('t')", "overflows 64 bits"});
  // Nothing overflows, but no file is that large.
  ExpectRefused(WithTensors({{"t", {big, big / 64}, kF32, 0}}), {"'t'", "beyond the file"});
}

TEST(GgufTensors, RowsAreWholeBlocks) {
  ExpectRefused(WithTensors({{"t", {33}, kQ4_0, 0}}), {"('t')", "row length 33", "32", "Q4_0"});
  ExpectRefused(WithTensors({{"t", {128, 2}, kQ4_K, 0}}), {"('t')", "row length 128", "256", "Q4_K"});
  ExpectOpens(WithTensors({{"t", {256, 2}, kQ4_K, 0}}));
}

TEST(GgufTensors, UnsupportedTypesAreNamedWithTheTensor) {
  ExpectRefused(WithTensors({{"blk.0.x", {256}, 17, 0}}), absl::StatusCode::kUnimplemented,
                {"('blk.0.x')", "IQ2_XS", "17"});
  ExpectRefused(WithTensors({{"blk.0.x", {256}, 99, 0}}), absl::StatusCode::kUnimplemented,
                {"('blk.0.x')", "type 99"});
  ExpectRefused(WithTensors({{"blk.0.x", {256}, 0xffffffff, 0}}), absl::StatusCode::kUnimplemented,
                {"4294967295"});
}

TEST(GgufTensors, OffsetsAreContiguousAndAligned) {
  const auto second_at = [](uint64_t offset) {
    return WithTensors({{"a", {8}, kF32, 0}, {"b", {8}, kF32, offset}});
  };
  ExpectOpens(second_at(32));
  ExpectRefused(second_at(64), {"'b'", "64 leaves a gap", "must be 32"});
  ExpectRefused(second_at(0), {"'b'", "0 overlaps", "must be 32"});
  ExpectRefused(second_at(36), {"'b'", "36 is not a multiple of the alignment 32"});
  ExpectRefused(second_at(UINT64_MAX - 31), {"'b'", "leaves a gap"});
  ExpectRefused(WithTensors({{"a", {8}, kF32, 32}}), {"'a'", "32 leaves a gap", "must be 0"});
}

TEST(GgufTensors, DataEndsWithinTheFile) {
  ExpectRefused(WithTensors({{"a", {1024}, kF32, 0}, {"b", {1}, kF32, 4096}}),
                {"'b'", "4 bytes", "beyond the file"});
  ExpectRefused(WithTensors({{"a", {1025}, kF32, 0}}), {"'a'", "4100 bytes", "beyond the file"});
  // The last tensor needs no padding after it.
  RawGguf file;
  file.infos = {TensorInfo({"a", {1}, kF32, 0})};
  file.data_bytes = 4;
  ExpectOpens(file.Encode());
  file.data_bytes = 3;
  ExpectRefused(file.Encode(), {"'a'", "beyond the file"});
}

TEST(GgufTensors, AFileWithoutTensorsNeedsNoPadding) {
  RawGguf file;
  file.entries = {U32Entry("answer", 42)};
  file.alignment = 1;
  ExpectOpens(file.Encode());
}

}  // namespace
}  // namespace spillway::test
