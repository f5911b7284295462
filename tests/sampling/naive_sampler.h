// The sampler as one would write it without regard to speed or memory: maps, a full sort, the C library's
// exp. It knows nothing of the engine's sampler but the meaning of the parameters.
#pragma once

#include "engine/sampling/sampler.h"

namespace spillway {

struct NaiveDraw {
  int32_t token = 0;
  double logprob = 0.0;
  // How near the nearest decision (cut or draw) was to going the other way, as a share of probability.
  double margin = 1.0;
};

NaiveDraw DrawNaively(const DrawInput& input, const SamplingParams& params);

}  // namespace spillway
