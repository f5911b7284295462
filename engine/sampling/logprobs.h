// The model's own distribution: log-softmax of the raw logits in double, untouched by penalties and
// temperature.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sampling/sampling_params.h"

namespace spillway::sampling_internal {

// log(sum of exp(logit)); sixteen partial sums in a fixed order. NaN and infinities count as Sanitize says.
double LogSumExp(std::span<const float> logits);

float LogprobOf(float logit, double log_sum_exp);

// Fills `top` with the likeliest tokens, descending, lowest id first on ties. top.size() <= logits.size().
void TopLogprobs(std::span<const float> logits, double log_sum_exp, std::span<TokenLogprob> top);

}  // namespace spillway::sampling_internal
