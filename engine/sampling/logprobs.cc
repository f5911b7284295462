#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <limits>

#include "engine/sampling/candidates.h"
#include "engine/sampling/exp_log.h"

namespace spillway::sampling_internal {
namespace {
// Its power is below 1e-300: too little to change a sum that holds a 1.
constexpr float kNothing = -std::numeric_limits<float>::infinity();
}  // namespace

double LogSumExp(std::span<const float> logits) {
  if (logits.empty()) return 0.0;
  const float raw_max = logits[ArgMax(logits)];
  const double max = Sanitize(raw_max);
  // Below a finite maximum the power takes care of NaN and -infinity by itself.
  const bool broken = static_cast<double>(raw_max) != max;
  double lanes[kExpBlock] = {};
  for (size_t i = 0; i < logits.size(); i += kExpBlock) {
    const size_t count = std::min<size_t>(kExpBlock, logits.size() - i);
    const float* block = logits.data() + i;
    float copy[kExpBlock];
    if (broken || count < kExpBlock) {
      std::fill_n(copy, kExpBlock, kNothing);
      SanitizeAll(logits.subspan(i, count), copy);
      block = copy;
    }
    double powers[kExpBlock];
    ExpBlock(block, max, 1.0, powers);
    for (size_t j = 0; j < kExpBlock; ++j) lanes[j] += powers[j];
  }
  for (size_t width = kExpBlock / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return max + Log(lanes[0]);
}

float LogprobOf(float logit, double log_sum_exp) {
  return Sanitize(std::min(0.0, static_cast<double>(Sanitize(logit)) - log_sum_exp));
}

void TopLogprobs(std::span<const float> logits, double log_sum_exp, std::span<TokenLogprob> top) {
  if (top.empty()) return;
  // While selecting, the logprob field holds the logit. Insertion from the end: a tie stays behind the lower
  // id.
  size_t filled = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (filled == top.size() && !(logits[id] > top[filled - 1].logprob)) continue;
    const float logit = Sanitize(logits[id]);
    if (filled == top.size() && !(logit > top[filled - 1].logprob)) continue;
    size_t at = filled < top.size() ? filled++ : filled - 1;
    for (; at > 0 && logit > top[at - 1].logprob; --at) top[at] = top[at - 1];
    top[at] = {static_cast<int32_t>(id), logit};
  }
  for (TokenLogprob& entry : top) entry.logprob = LogprobOf(entry.logprob, log_sum_exp);
}

}  // namespace spillway::sampling_internal
