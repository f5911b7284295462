// The table itself: ids, names and sizes as ggml publishes them, and sizes of tensors without overflow.
#include "engine/quant/formats.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Formats, TableHasTheIdsAndBlockSizesOfGgml) {
  struct Row {
    uint32_t id;
    std::string_view name;
    uint32_t block_elements;
    uint32_t block_bytes;
  };
  const std::vector<Row> rows = {
      {0, "F32", 1, 4},       {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},    {3, "Q4_1", 32, 20},
      {6, "Q5_0", 32, 22},    {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},    {10, "Q2_K", 256, 84},
      {11, "Q3_K", 256, 110}, {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176}, {14, "Q6_K", 256, 210},
      {20, "IQ4_NL", 32, 18}, {23, "IQ4_XS", 256, 136}, {30, "BF16", 1, 2},     {39, "MXFP4", 32, 17}};
  EXPECT_EQ(AllFormats().size(), rows.size());
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const FormatInfo* format = FindFormat(row.id);
    ASSERT_NE(format, nullptr);
    EXPECT_EQ(format->name, row.name);
    EXPECT_EQ(format->block_elements, row.block_elements);
    EXPECT_EQ(format->block_bytes, row.block_bytes);
    EXPECT_EQ(&FormatOf(format->type), format);
    EXPECT_EQ(GgmlTypeName(row.id), row.name);
  }
}

TEST(Formats, NamesTypesThatAreNotSupported) {
  EXPECT_EQ(FindFormat(17), nullptr);
  EXPECT_EQ(GgmlTypeName(17), "IQ2_XS");
  EXPECT_EQ(GgmlTypeName(28), "F64");
  EXPECT_EQ(GgmlTypeName(40), "NVFP4");
  EXPECT_EQ(GgmlTypeName(4), "type 4");
  EXPECT_EQ(GgmlTypeName(99), "type 99");
  EXPECT_EQ(GgmlTypeName(0xffffffffu), "type 4294967295");
}

TEST(Formats, BytesAreCheckedForBlocksAndOverflow) {
  EXPECT_EQ(FormatBytes(TensorType::kQ4_K, 512, 3), 2u * 144 * 3);
  EXPECT_EQ(FormatBytes(TensorType::kF32, 5, 7), 140u);
  EXPECT_EQ(FormatBytes(TensorType::kQ4_K, 0, 7), 0u);
  EXPECT_EQ(FormatBytes(TensorType::kQ4_K, 128, 3), std::nullopt);
  EXPECT_EQ(FormatBytes(TensorType::kQ8_0, 33, 1), std::nullopt);
  EXPECT_EQ(FormatBytes(TensorType::kF32, uint64_t{1} << 62, 1), std::nullopt);
  EXPECT_EQ(FormatBytes(TensorType::kF32, uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(FormatBytes(TensorType::kF16, uint64_t{1} << 31, uint64_t{1} << 31), uint64_t{1} << 63);
}

}  // namespace
}  // namespace spillway
