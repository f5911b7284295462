#include "engine/sampling/candidates.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "engine/sampling/exp_log.h"

namespace spillway::sampling_internal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kHistogramBins = 4096;

constexpr uint64_t Align(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Orders like the float: a larger logit has a larger key.
uint32_t KeyOf(float logit) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// round(weight * 2^kWeightBits): adding 2^52 rounds to an integer and leaves it in the mantissa.
uint64_t ToFixed(double weight) {
  constexpr double kScale = static_cast<double>(uint64_t{1} << kWeightBits);
  return std::bit_cast<uint64_t>(weight * kScale + 0x1p52) & 0xfffffffffffffu;
}

}  // namespace

void SanitizeAll(std::span<const float> logits, float* out) {
  using Float4 = float __attribute__((vector_size(16)));
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Float4 largest = {kLargest, kLargest, kLargest, kLargest};
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) {
    Float4 x;
    std::memcpy(&x, logits.data() + i, sizeof x);
    x = x > -largest ? x : -largest;
    x = (x < largest ? x : largest) + 0.0f;
    std::memcpy(out + i, &x, sizeof x);
  }
  for (; i < logits.size(); ++i) out[i] = Sanitize(logits[i]);
}

uint32_t ArgMax(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -kInfinity);
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  for (; i < values.size(); ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  const float best = *std::max_element(lanes, lanes + kLanes);
  const auto found = std::find(values.begin(), values.end(), best);
  return found == values.end() ? 0 : static_cast<uint32_t>(found - values.begin());
}

uint64_t Workspace::Bytes(uint32_t n_vocab) {
  const uint64_t n = n_vocab;
  return Align(n * sizeof(float)) + Align(n * sizeof(uint32_t)) + Align(n * sizeof(uint64_t)) +
         kHistogramBins * sizeof(uint64_t);
}

Workspace::Workspace(std::span<std::byte> memory, uint32_t n_vocab) {
  const uint64_t n = n_vocab;
  std::byte* next = memory.data();
  logits = reinterpret_cast<float*>(next);
  next += Align(n * sizeof(float));
  ids = reinterpret_cast<uint32_t*>(next);
  next += Align(n * sizeof(uint32_t));
  weights = reinterpret_cast<uint64_t*>(next);
  counts = reinterpret_cast<uint32_t*>(next);
  next += Align(n * sizeof(uint64_t));
  histogram = reinterpret_cast<uint64_t*>(next);
}

Candidates::Candidates(const Workspace& workspace, uint32_t n_vocab, float max)
    : w_(workspace), size_(n_vocab), max_(max) {
  std::iota(w_.ids, w_.ids + n_vocab, 0u);
}

// Fills the weights at a temperature and returns their sum. The likeliest token weighs exactly one.
uint64_t Candidates::Weigh(double inverse_temperature) {
  const double max = max_;
  if (weighed_at_ != inverse_temperature) {
    uint32_t i = 0;
    for (; i + kExpBlock <= size_; i += kExpBlock) {
      double weights[kExpBlock];
      ExpBlock(w_.logits + i, max, inverse_temperature, weights);
      for (uint32_t j = 0; j < kExpBlock; ++j) w_.weights[i + j] = ToFixed(weights[j]);
    }
    for (; i < size_; ++i) w_.weights[i] = ToFixed(Exp((w_.logits[i] - max) * inverse_temperature));
    weighed_at_ = inverse_temperature;
  }
  return std::accumulate(w_.weights, w_.weights + size_, uint64_t{0});
}

// Adds up the weights (or the number) of candidates whose key starts with `prefix`, by their next digit.
void Candidates::Count(uint32_t prefix, int shift, bool weighted) {
  // Digits of 12, 12 and 8 bits: shifts 20, 8, 0.
  const int digit_bits = shift == 0 ? 8 : 12;
  const uint32_t digit_mask = (1u << digit_bits) - 1;
  std::fill_n(w_.histogram, kHistogramBins, 0);
  for (uint32_t i = 0; i < size_; ++i) {
    const uint32_t key = KeyOf(w_.logits[i]);
    if ((uint64_t{key} >> (shift + digit_bits)) != prefix) continue;
    w_.histogram[(key >> shift) & digit_mask] += weighted ? w_.weights[i] : 1;
  }
}

// Keeps the shortest run of candidates, by descending logit and ascending id, that weighs at least `target`
// (1 <= target <= all of it): the key of its last member is found digit by digit, as in a radix select.
void Candidates::KeepPrefix(uint64_t target, bool weighted) {
  uint32_t prefix = 0;
  for (const int shift : {20, 8, 0}) {
    Count(prefix, shift, weighted);
    uint32_t digit = (shift == 0 ? 256u : kHistogramBins) - 1;
    while (digit > 0 && w_.histogram[digit] < target) target -= w_.histogram[digit--];
    prefix = (prefix << (shift == 0 ? 8 : 12)) | digit;
    // Everything below the digit is out for good; the next digit is searched among fewer.
    uint32_t kept = 0;
    for (uint32_t i = 0; i < size_; ++i) {
      const uint32_t head = KeyOf(w_.logits[i]) >> shift;
      if (head < prefix) continue;
      const uint64_t weight = weighted ? w_.weights[i] : 1;
      if (shift == 0 && head == prefix) {
        if (target == 0) continue;
        target -= std::min(target, weight);
      }
      w_.ids[kept] = w_.ids[i];
      w_.logits[kept] = w_.logits[i];
      if (weighted) w_.weights[kept] = weight;
      ++kept;
    }
    size_ = kept;
  }
}

void Candidates::KeepTopK(uint32_t k) {
  if (k == 0 || k >= size_) return;
  weighed_at_ = -1.0;
  KeepPrefix(k, /*weighted=*/false);
}

void Candidates::KeepTopP(float p) {
  if (p >= 1.0f) return;
  const uint64_t total = Weigh(1.0);
  const double share = static_cast<double>(p) * static_cast<double>(total);
  uint64_t target = static_cast<uint64_t>(share);
  if (static_cast<double>(target) < share) ++target;
  KeepPrefix(std::clamp<uint64_t>(target, 1, total), /*weighted=*/true);
}

void Candidates::KeepMinP(float min_p) {
  if (min_p <= 0.0f) return;
  const double lowest = static_cast<double>(max_) + Log(min_p);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < size_; ++i) {
    if (static_cast<double>(w_.logits[i]) < lowest) continue;
    w_.ids[kept] = w_.ids[i];
    w_.logits[kept] = w_.logits[i];
    if (weighed_at_ > 0.0) w_.weights[kept] = w_.weights[i];
    ++kept;
  }
  size_ = kept;
}

uint32_t Candidates::Draw(float temperature, double u) {
  const uint64_t total = Weigh(1.0 / static_cast<double>(temperature));
  // u has 53 bits: the product is exact, and rest < total.
  const auto u_bits = static_cast<uint64_t>(u * 0x1p53);
  auto rest = static_cast<uint64_t>((static_cast<unsigned __int128>(u_bits) * total) >> 53);
  for (uint32_t i = 0; i < size_; ++i) {
    if (rest < w_.weights[i]) return w_.ids[i];
    rest -= w_.weights[i];
  }
  return w_.ids[0];  // unreachable while u < 1: the likeliest token weighs one
}

}  // namespace spillway::sampling_internal
