// The tokens still in play during one draw, in order of id, narrowed by top-k, top-p and min-p. Probabilities
// are integers (1 = 2^42 relative to the likeliest token), so that every sum is exact and its order does not
// matter: the cut of top-p and the draw are the same however they are computed. Nothing is sorted and nothing
// is allocated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace spillway::sampling_internal {

// Masked tokens hold -infinity; every other logit is finite and no NaN (see Sanitize).
inline constexpr int kWeightBits = 42;  // 2^21 tokens of weight one still sum below 2^63

// NaN and -infinity become the lowest finite value, +infinity the highest, -0 becomes +0.
inline float Sanitize(float logit) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  logit = logit > -kLargest ? logit : -kLargest;
  logit = logit < kLargest ? logit : kLargest;
  return logit + 0.0f;
}
inline float Sanitize(double logit) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(logit > -kLargest ? std::min(logit, kLargest) : -kLargest) + 0.0f;
}

void SanitizeAll(std::span<const float> logits, float* out);

// Planned memory of one draw, cut into arrays.
struct Workspace {
  static uint64_t Bytes(uint32_t n_vocab);
  Workspace(std::span<std::byte> memory, uint32_t n_vocab);

  float* logits;        // (n_vocab)
  uint32_t* ids;        // (n_vocab), ascending
  uint64_t* weights;    // (n_vocab)
  uint64_t* histogram;  // (kHistogramBins)
  uint32_t* counts;     // (n_vocab), shares memory with weights: penalties are over before weights exist
};

// Borrows the workspace, whose logits [0, n_vocab) are filled, for one draw. Confined to one thread.
class Candidates {
 public:
  // `max` is the largest of the logits and finite.
  Candidates(const Workspace& workspace, uint32_t n_vocab, float max);

  void KeepTopK(uint32_t k);
  // The shortest run of likeliest tokens whose share of the candidates' probability is at least p; on ties
  // low ids first.
  void KeepTopP(float p);
  // Tokens at least min_p times as likely as the likeliest.
  void KeepMinP(float min_p);
  // Inverse of the cumulative distribution (in order of id) at u in [0, 1).
  uint32_t Draw(float temperature, double u);

 private:
  uint64_t Weigh(double inverse_temperature);
  void KeepPrefix(uint64_t target, bool weighted);
  void Count(uint32_t prefix, int shift, bool weighted);

  const Workspace w_;
  uint32_t size_;
  float max_;
  double weighed_at_ = -1.0;  // inverse temperature the weights belong to
};

// Index of the largest value, lowest index on ties; NaN never wins; 0 when nothing is above -infinity.
uint32_t ArgMax(std::span<const float> values);

}  // namespace spillway::sampling_internal
