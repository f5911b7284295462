#include "engine/sampling/logprobs.h"

#include <algorithm>

#include "engine/sampling/candidates.h"
#include "engine/sampling/exp_log.h"

namespace spillway::sampling_internal {

double LogSumExp(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  if (logits.empty()) return 0.0;
  const double max = Sanitize(logits[ArgMax(logits)]);
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += Exp(Sanitize(logits[i + j]) - max);
  }
  for (size_t j = 0; i < logits.size(); ++i, ++j) lanes[j] += Exp(Sanitize(logits[i]) - max);
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
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
