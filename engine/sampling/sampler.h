// Draws tokens from logits. Deterministic: equal inputs give equal tokens on every backend and thread count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/sampling_params.h"

namespace spillway {

// Scratch of one draw over planned memory, so that drawing allocates nothing. Bytes() is what the plan
// counts.
class SamplerScratch {
 public:
  static uint64_t Bytes(uint32_t n_vocab);
  // `memory` holds Bytes(n_vocab), 64-byte aligned, and outlives the scratch.
  SamplerScratch(std::span<std::byte> memory, uint32_t n_vocab);

 private:
  friend TokenLogprob DrawToken(const struct DrawInput&, const SamplingParams&, SamplerScratch&,
                                std::span<TokenLogprob>);
  std::span<std::byte> memory_;
  uint32_t n_vocab_;
};

// `logits` (n_vocab) are not changed. `history` holds every token of the sequence up to and including the
// row's own; those from index `prompt_tokens` on are output. `position` is the drawn token's position (=
// history.size()). `top` receives params.n_logprobs entries of the model's own distribution (log-softmax of
// the raw logits), descending, lowest id first on ties (fewer when `top` or the vocabulary is smaller).
// Returns the chosen token with its raw logprob, 0 unless params.logprobs or n_logprobs ask for it: a greedy
// draw without them is one pass. NaN and -infinity count as the lowest finite logit, so a broken row still
// draws the same token everywhere.
struct DrawInput {
  std::span<const float> logits;  // (n_vocab)
  std::span<const int32_t> history;
  uint32_t prompt_tokens = 0;
  uint64_t position = 0;
  std::span<const uint8_t> mask = {};  // (n_vocab bits, lowest first) of what may be drawn; empty: everything
};
TokenLogprob DrawToken(const DrawInput& input, const SamplingParams& params, SamplerScratch& scratch,
                       std::span<TokenLogprob> top);

}  // namespace spillway
