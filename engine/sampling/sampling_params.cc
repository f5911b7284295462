#include "engine/sampling/sampling_params.h"

#include <cmath>

#include "engine/base/status.h"

namespace spillway {
namespace {

// Written so that NaN fails every range.
absl::Status CheckRange(std::string_view name, float value, bool in_range, std::string_view range) {
  if (in_range) return absl::OkStatus();
  return InvalidArgument("{} is {}, allowed is {}", name, value, range);
}

absl::Status CheckToken(std::string_view name, int32_t token, uint32_t n_vocab) {
  if (token >= 0 && static_cast<uint32_t>(token) < n_vocab) return absl::OkStatus();
  return InvalidArgument("{} names token {}, the vocabulary is [0, {})", name, token, n_vocab);
}

absl::Status CheckCount(std::string_view name, size_t count, size_t limit) {
  if (count <= limit) return absl::OkStatus();
  return InvalidArgument("{} has {} entries, allowed are {}", name, count, limit);
}

}  // namespace

absl::Status ValidateSamplingParams(const SamplingParams& p, uint32_t n_vocab) {
  SPILLWAY_RETURN_IF_ERROR(CheckRange("temperature", p.temperature,
                                      p.temperature >= 0.0f && std::isfinite(p.temperature),
                                      "finite and >= 0"));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("top_p", p.top_p, p.top_p > 0.0f && p.top_p <= 1.0f, "(0, 1]"));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("min_p", p.min_p, p.min_p >= 0.0f && p.min_p < 1.0f, "[0, 1)"));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("repetition_penalty", p.repetition_penalty,
                                      p.repetition_penalty > 0.0f && std::isfinite(p.repetition_penalty),
                                      "finite and > 0"));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("presence_penalty", p.presence_penalty,
                                      p.presence_penalty >= -2.0f && p.presence_penalty <= 2.0f, "[-2, 2]"));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("frequency_penalty", p.frequency_penalty,
                                      p.frequency_penalty >= -2.0f && p.frequency_penalty <= 2.0f,
                                      "[-2, 2]"));
  if (p.n_logprobs > kMaxTopLogprobs) {
    return InvalidArgument("n_logprobs is {}, allowed is [0, {}]", p.n_logprobs, kMaxTopLogprobs);
  }
  SPILLWAY_RETURN_IF_ERROR(CheckCount("logit_bias", p.logit_bias.size(), kMaxLogitBias));
  for (const auto& [token, bias] : p.logit_bias) {
    SPILLWAY_RETURN_IF_ERROR(CheckToken("logit_bias", token, n_vocab));
    SPILLWAY_RETURN_IF_ERROR(
        CheckRange("logit_bias", bias, bias >= -100.0f && bias <= 100.0f, "[-100, 100]"));
  }
  SPILLWAY_RETURN_IF_ERROR(CheckCount("stop_ids", p.stop_ids.size(), kMaxStopIds));
  for (const int32_t token : p.stop_ids) SPILLWAY_RETURN_IF_ERROR(CheckToken("stop_ids", token, n_vocab));
  return absl::OkStatus();
}

}  // namespace spillway
