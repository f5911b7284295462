#include "engine/sampling/sampler.h"

#include <algorithm>
#include <limits>

#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/logprobs.h"

namespace spillway {
namespace {

using sampling_internal::ArgMax;
using sampling_internal::Candidates;
using sampling_internal::Sanitize;
using sampling_internal::Workspace;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

bool HasPenalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

bool MasksStopIds(const DrawInput& input, const SamplingParams& params) {
  const uint64_t generated =
      input.history.size() - std::min<uint64_t>(input.prompt_tokens, input.history.size());
  return generated < params.min_tokens && !params.stop_ids.empty();
}

bool InVocabulary(int32_t token, size_t n_vocab) {
  return token >= 0 && static_cast<size_t>(token) < n_vocab;
}

// Once per distinct token of the history. The counts need no clearing: visiting the history does it.
void ApplyPenalties(const DrawInput& input, const SamplingParams& params, const Workspace& w) {
  constexpr uint32_t kDone = ~uint32_t{0};
  const size_t n_vocab = input.logits.size();
  const auto history = input.history;
  for (const int32_t token : history) {
    if (InVocabulary(token, n_vocab)) w.counts[token] = 0;
  }
  for (const int32_t token : history.subspan(std::min<size_t>(input.prompt_tokens, history.size()))) {
    if (InVocabulary(token, n_vocab)) ++w.counts[token];
  }
  for (const int32_t token : history) {
    if (!InVocabulary(token, n_vocab) || w.counts[token] == kDone) continue;
    const uint32_t count = w.counts[token];
    double logit = w.logits[token];
    logit = logit > 0.0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (count > 0) logit -= params.presence_penalty + static_cast<double>(params.frequency_penalty) * count;
    w.logits[token] = Sanitize(logit);
    w.counts[token] = kDone;
  }
}

void ApplyMask(std::span<const uint8_t> mask, size_t n_vocab, float* logits) {
  for (size_t begin = 0; begin < n_vocab; begin += 8) {
    const uint8_t bits = begin / 8 < mask.size() ? mask[begin / 8] : 0;
    if (bits == 0xFF) continue;
    for (size_t id = begin; id < std::min(begin + 8, n_vocab); ++id) {
      if ((bits >> (id - begin) & 1) == 0) logits[id] = kMasked;
    }
  }
}

// Penalties, logit bias and mask, in this order, into the workspace.
void AdjustLogits(const DrawInput& input, const SamplingParams& params, const Workspace& w) {
  const size_t n_vocab = input.logits.size();
  sampling_internal::SanitizeAll(input.logits, w.logits);
  if (HasPenalties(params)) ApplyPenalties(input, params, w);
  for (const auto& [token, bias] : params.logit_bias) {
    if (InVocabulary(token, n_vocab)) w.logits[token] = Sanitize(static_cast<double>(w.logits[token]) + bias);
  }
  if (!input.mask.empty()) ApplyMask(input.mask, n_vocab, w.logits);
  if (!MasksStopIds(input, params)) return;
  for (const int32_t token : params.stop_ids) {
    if (InVocabulary(token, n_vocab)) w.logits[token] = kMasked;
  }
}

uint32_t Choose(const DrawInput& input, const SamplingParams& params, const Workspace& w) {
  const bool greedy = params.temperature <= 0.0f || params.top_k == 1;
  const bool adjusted = HasPenalties(params) || !params.logit_bias.empty() || !input.mask.empty() ||
                        MasksStopIds(input, params);
  if (greedy && !adjusted) return ArgMax(input.logits);
  AdjustLogits(input, params, w);
  const auto n_vocab = static_cast<uint32_t>(input.logits.size());
  const uint32_t likeliest = ArgMax({w.logits, n_vocab});
  // When the mask leaves nothing, there is nothing to draw from: token 0, as ArgMax says.
  if (greedy || w.logits[likeliest] == kMasked) return likeliest;
  Candidates candidates(w, n_vocab, w.logits[likeliest]);
  candidates.KeepTopK(params.top_k);
  candidates.KeepTopP(params.top_p);
  candidates.KeepMinP(params.min_p);
  return candidates.Draw(params.temperature, UniformDraw(params.seed, params.choice, input.position));
}

}  // namespace

uint64_t SamplerScratch::Bytes(uint32_t n_vocab) { return Workspace::Bytes(n_vocab); }

SamplerScratch::SamplerScratch(std::span<std::byte> memory, uint32_t n_vocab)
    : memory_(memory), n_vocab_(n_vocab) {
  SPILLWAY_CHECK(memory.size() >= Bytes(n_vocab));
}

TokenLogprob DrawToken(const DrawInput& input, const SamplingParams& params, SamplerScratch& scratch,
                       std::span<TokenLogprob> top) {
  SPILLWAY_CHECK(!input.logits.empty() && input.logits.size() <= scratch.n_vocab_);
  const uint32_t token = Choose(input, params, Workspace(scratch.memory_, scratch.n_vocab_));
  TokenLogprob chosen{static_cast<int32_t>(token), 0.0f};
  if (!params.logprobs && params.n_logprobs == 0) return chosen;
  const double log_sum_exp = sampling_internal::LogSumExp(input.logits);
  chosen.logprob = sampling_internal::LogprobOf(input.logits[token], log_sum_exp);
  const size_t wanted = std::min<size_t>({params.n_logprobs, top.size(), input.logits.size()});
  sampling_internal::TopLogprobs(input.logits, log_sum_exp, top.first(wanted));
  return chosen;
}

}  // namespace spillway
