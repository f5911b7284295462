// Reference operations against closed forms: values that follow from the formula by hand, not from another
// run of it.
#include "engine/ref/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace spillway::ref {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const std::vector<double> x = {3.0, 4.0, 0.0, 0.0};  // mean square 25/4
  const std::vector<float> weight = {1.0f, 2.0f, 5.0f, 1.0f};
  std::vector<double> out(4);
  RmsNorm(x, weight, 0.0, out);
  EXPECT_THAT(out, Pointwise(DoubleNear(1e-15), {1.2, 3.2, 0.0, 0.0}));
}

TEST(RmsNorm, OfZerosIsZeroThanksToEpsilon) {
  std::vector<double> x(5, 0.0);
  RmsNorm(x, std::vector<float>(5, 1.0f), 1e-5, x);
  EXPECT_THAT(x, Pointwise(DoubleNear(0.0), std::vector<double>(5, 0.0)));
}

TEST(MatMul, MultipliesEveryRowByEveryOutput) {
  const std::vector<float> weight = {1, 2, 3, -1, 0, 1};  // (2, 3)
  const std::vector<double> x = {1, 1, 1, 0.5, 0, 2};     // (2, 3)
  std::vector<double> out(4);
  MatMul(weight, x, 3, out);
  EXPECT_THAT(out, ElementsAre(6.0, 0.0, 6.5, 1.5));
}

TEST(MatMul, GivesEachRowTheSameBitsAloneAndTogether) {
  constexpr uint64_t kIn = 37, kOut = 5, kRows = 19;  // more than two blocks, the last one partial
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> weight(kIn * kOut);
  std::vector<double> x(kRows * kIn);
  for (float& value : weight) value = normal(random);
  for (double& value : x) value = normal(random);
  std::vector<double> together(kRows * kOut);
  MatMul(weight, x, kIn, together);
  for (uint64_t row = 0; row < kRows; ++row) {
    std::vector<double> alone(kOut);
    MatMul(weight, std::span(x).subspan(row * kIn, kIn), kIn, alone);
    for (uint64_t o = 0; o < kOut; ++o) EXPECT_EQ(alone[o], together[row * kOut + o]) << "row " << row;
  }
}

TEST(MatMul, OfNoRowsWritesNothing) {
  std::vector<double> out;
  MatMul(std::vector<float>(6), {}, 3, out);
  EXPECT_TRUE(out.empty());
}

TEST(AddBias, RepeatsForEveryRow) {
  std::vector<double> x = {1, 2, 3, 4};
  AddBias(x, std::vector<float>{10, 20});
  EXPECT_THAT(x, ElementsAre(11, 22, 13, 24));
}

// A quarter turn sends (a, b) to (-b, a).
TEST(Rope, TurnsAdjacentPairsWhenNorm) {
  std::vector<double> x = {1, 2, 3, 4, 9};
  Rope(x, {.kind = RopeKind::kNorm}, std::vector<float>{static_cast<float>(std::numbers::pi / 2), 0.0f}, 1);
  EXPECT_THAT(x, Pointwise(DoubleNear(1e-6), {-2.0, 1.0, 3.0, 4.0, 9.0}));
}

TEST(Rope, TurnsHalvesWhenNeox) {
  std::vector<double> x = {1, 2, 3, 4, 9};
  Rope(x, {.kind = RopeKind::kNeox}, std::vector<float>{static_cast<float>(std::numbers::pi / 2), 0.0f}, 1);
  EXPECT_THAT(x, Pointwise(DoubleNear(1e-6), {-3.0, 2.0, 1.0, 4.0, 9.0}));
}

TEST(Rope, LeavesPositionZeroAlone) {
  std::vector<double> x = {1, 2, 3, 4};
  Rope(x, {.kind = RopeKind::kNorm}, std::vector<float>{1.0f, 0.1f}, 0);
  EXPECT_THAT(x, ElementsAre(1, 2, 3, 4));
}

// The point of RoPE: q.k depends on the distance of positions alone.
TEST(Rope, MakesProductsDependOnDistance) {
  const std::vector<float> frequencies = {1.0f, 0.03f};
  const auto product = [&](uint32_t q_position, uint32_t k_position) {
    std::vector<double> q = {0.3, -1.2, 0.7, 2.0}, k = {1.1, 0.4, -0.6, 0.9};
    Rope(q, {.kind = RopeKind::kNeox}, frequencies, q_position);
    Rope(k, {.kind = RopeKind::kNeox}, frequencies, k_position);
    double dot = 0;
    for (size_t i = 0; i < q.size(); ++i) dot += q[i] * k[i];
    return dot;
  };
  EXPECT_NEAR(product(7, 3), product(1004, 1000), 1e-10);
}

TEST(Softmax, SurvivesLargeValues) {
  std::vector<double> x = {1000.0, 1000.0 + std::log(3.0)};
  Softmax(x);
  EXPECT_THAT(x, Pointwise(DoubleNear(1e-12), {0.25, 0.75}));
}

TEST(LogSoftmax, IsTheLogarithmOfSoftmax) {
  std::vector<double> x = {-5.0, 0.0, 2.5}, softmax = x, log_softmax(3);
  Softmax(softmax);
  LogSoftmax(x, log_softmax);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(log_softmax[i], std::log(softmax[i]), 1e-14);
}

TEST(Attention, OfOnePositionIsItsValue) {
  const std::vector<double> q = {1, 2}, k = {-3, 5}, v = {0.25, -8};
  const double* keys[] = {k.data()};
  const double* values[] = {v.data()};
  std::vector<double> out(2);
  Attention(q, keys, values, {.scale = 0.7}, out);
  EXPECT_EQ(out, v);
}

TEST(Attention, WeighsByTheExponentOfScaledProducts) {
  const std::vector<double> q = {1, 0}, k0 = {0, 5}, k1 = {2 * std::log(3.0), 5}, v0 = {0, 4}, v1 = {8, 0};
  const double* keys[] = {k0.data(), k1.data()};
  const double* values[] = {v0.data(), v1.data()};
  std::vector<double> out(2);
  Attention(q, keys, values, {.scale = 0.5}, out);  // weights 1/4 and 3/4
  EXPECT_THAT(out, Pointwise(DoubleNear(1e-12), {6.0, 1.0}));
}

TEST(GatedActivation, IsSiluOfTheGateTimesUp) {
  std::vector<double> gate = {0.0, std::log(3.0), -1000.0};
  GatedActivation(Activation::kSilu, gate, std::vector<double>{7.0, 2.0, 1.0});
  EXPECT_THAT(gate, Pointwise(DoubleNear(1e-12), {0.0, 1.5 * std::log(3.0), 0.0}));
}

TEST(Activate, GeluNearsIdentityAndZero) {
  EXPECT_EQ(Activate(Activation::kGeluTanh, 0.0), 0.0);
  EXPECT_NEAR(Activate(Activation::kGeluTanh, 20.0), 20.0, 1e-12);
  EXPECT_NEAR(Activate(Activation::kGeluTanh, -20.0), 0.0, 1e-12);
  // gelu(x) - gelu(-x) = x holds for every x, as tanh is odd.
  EXPECT_NEAR(Activate(Activation::kGeluTanh, 0.6) - Activate(Activation::kGeluTanh, -0.6), 0.6, 1e-15);
}

}  // namespace
}  // namespace spillway::ref
