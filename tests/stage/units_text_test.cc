// The one notation of layers and units for people.
#include "engine/stage/units_text.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(UnitsText, LayersAreInclusive) {
  EXPECT_EQ(FormatLayers(0, 26), "0-25");
  EXPECT_EQ(FormatLayers(7, 8), "7");
  EXPECT_EQ(FormatLayers(4, 4), "none");
  EXPECT_EQ(FormatLayers(4, 3), "none");  // as a peer may send it
}

TEST(UnitsText, UnitsStandInTokenOrder) {
  EXPECT_EQ(DescribeUnits({0, 12, true, false}), "embedding + layers 0-11");
  EXPECT_EQ(DescribeUnits({12, 13, false, true}), "layer 12 + head");
  EXPECT_EQ(DescribeUnits({30, 30, false, true}), "head");
  EXPECT_EQ(DescribeUnits({0, 0, false, false}), "");
}

}  // namespace
}  // namespace spillway
