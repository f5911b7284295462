// Goal: each parameter is refused outside its range, with its name, the value and the range in the message.
#include "engine/sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace spillway {
namespace {

constexpr uint32_t kVocabulary = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Change = std::function<void(SamplingParams&)>;

absl::Status Validate(const Change& change) {
  SamplingParams params;
  change(params);
  return ValidateSamplingParams(params, kVocabulary);
}

TEST(SamplingParams, RefusesValuesOutsideTheirRange) {
  struct Case {
    std::string name;
    Change change;
  };
  const Case cases[] = {
      {"temperature", [](auto& p) { p.temperature = -0.1f; }},
      {"temperature", [](auto& p) { p.temperature = kNan; }},
      {"temperature", [](auto& p) { p.temperature = kInfinity; }},
      {"top_p", [](auto& p) { p.top_p = 0.0f; }},
      {"top_p", [](auto& p) { p.top_p = 1.01f; }},
      {"top_p", [](auto& p) { p.top_p = kNan; }},
      {"min_p", [](auto& p) { p.min_p = -0.1f; }},
      {"min_p", [](auto& p) { p.min_p = 1.0f; }},
      {"min_p", [](auto& p) { p.min_p = kNan; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0.0f; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = -1.0f; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = kInfinity; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = kNan; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = 2.1f; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = -2.1f; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = kNan; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = 2.1f; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = -2.1f; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = kNan; }},
      {"n_logprobs", [](auto& p) { p.n_logprobs = kMaxTopLogprobs + 1; }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{-1, 0.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{kVocabulary, 0.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{1, 100.5f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{1, kNan}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias.assign(kMaxLogitBias + 1, {1, 0.0f});
       }},
      {"stop_ids", [](auto& p) { p.stop_ids = {-1}; }},
      {"stop_ids",
       [](auto& p) {
         p.stop_ids = {1, kVocabulary};
       }},
      {"stop_ids", [](auto& p) { p.stop_ids.assign(kMaxStopIds + 1, 1); }},
  };
  int index = 0;
  for (const Case& c : cases) {
    const absl::Status status = Validate(c.change);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "case " << index;
    EXPECT_EQ(std::string(status.message()).rfind(c.name, 0), 0u) << status.message();
    ++index;
  }
}

TEST(SamplingParams, AcceptsTheEdgesOfTheRanges) {
  const Change cases[] = {
      [](auto&) {},
      [](auto& p) { p.temperature = 0.0f; },
      [](auto& p) { p.top_p = 1e-30f; },
      [](auto& p) { p.min_p = 0.999f; },
      [](auto& p) { p.top_k = ~0u; },
      [](auto& p) { p.presence_penalty = p.frequency_penalty = -2.0f; },
      [](auto& p) { p.presence_penalty = p.frequency_penalty = 2.0f; },
      [](auto& p) { p.n_logprobs = kMaxTopLogprobs; },
      [](auto& p) {
        p.logit_bias = {{0, -100.0f}, {kVocabulary - 1, 100.0f}};
      },
      [](auto& p) {
        p.stop_ids = {0, kVocabulary - 1};
      },
      [](auto& p) { p.min_tokens = ~0u; },
  };
  for (const Change& change : cases) EXPECT_TRUE(Validate(change).ok()) << Validate(change).message();
}

TEST(SamplingParams, MessageNamesValueAndRange) {
  const absl::Status status = Validate([](auto& p) { p.top_p = 1.5f; });
  EXPECT_EQ(std::string(status.message()), "top_p is 1.5, allowed is (0, 1]");
}

}  // namespace
}  // namespace spillway
