// Parameters of drawing a token; plain data, valid for one sequence. Order of application: penalties, logit
// bias, mask, top-k, top-p, min-p, temperature, draw.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace spillway {

inline constexpr uint32_t kMaxTopLogprobs = 20;
inline constexpr uint32_t kMaxLogitBias = 1024;
inline constexpr uint32_t kMaxStopIds = 1024;

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

struct SamplingParams {
  float temperature = 1.0f;         // 0 = greedy
  uint32_t top_k = 0;               // 0 = off
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1)
  float repetition_penalty = 1.0f;  // > 0, over prompt and output
  float presence_penalty = 0.0f;    // [-2, 2], over output only
  float frequency_penalty = 0.0f;   // [-2, 2], over output only
  uint64_t seed = 0;                // drawn at admission when the client gives none
  uint32_t choice = 0;              // index among n
  uint32_t n_logprobs = 0;          // alternatives reported per token, 0..20
  bool logprobs = false;            // report the chosen token's logprob
  // Added, [-100, 100]; a token named twice gets both.
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  std::vector<int32_t> stop_ids = {};  // never drawn while fewer than min_tokens were generated
  uint32_t min_tokens = 0;
};

// InvalidArgument naming the parameter, the value and the allowed range (NaN is refused).
absl::Status ValidateSamplingParams(const SamplingParams& params, uint32_t n_vocab);

}  // namespace spillway
