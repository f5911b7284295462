// Goal: the macros return early with the status they met, and evaluate their argument once.
#include "engine/base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace spillway {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(int value, int& calls) {
  ++calls;
  if (value < 0) return InvalidArgument("value {} is negative", value);
  return std::make_unique<int>(value);
}

absl::StatusOr<int> AddBoth(int a, int b, int& calls) {
  SPILLWAY_ASSIGN_OR_RETURN(const std::unique_ptr<int> first, Make(a, calls));
  SPILLWAY_ASSIGN_OR_RETURN(const std::unique_ptr<int> second, Make(b, calls));
  return *first + *second;
}

absl::Status Forward(const absl::Status& status, bool& reached) {
  SPILLWAY_RETURN_IF_ERROR(status);
  reached = true;
  return absl::OkStatus();
}

TEST(Status, AssignOrReturnMovesTheValueAndEvaluatesOnce) {
  int calls = 0;
  EXPECT_EQ(AddBoth(2, 3, calls).value(), 5);
  EXPECT_EQ(calls, 2);
}

TEST(Status, AssignOrReturnReturnsTheFirstError) {
  int calls = 0;
  const auto result = AddBoth(-2, 3, calls);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(result.status()), "value -2 is negative");
  EXPECT_EQ(calls, 1);
}

TEST(Status, ReturnIfErrorGoesOnWhenOk) {
  bool reached = false;
  EXPECT_TRUE(Forward(absl::OkStatus(), reached).ok());
  EXPECT_TRUE(reached);
  reached = false;
  EXPECT_EQ(Forward(Unavailable("gone"), reached).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(reached);
}

TEST(StatusDeathTest, AViolatedCheckAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(SPILLWAY_CHECK(1 + 1 == 3), "1 \\+ 1 == 3");
}

}  // namespace
}  // namespace spillway
