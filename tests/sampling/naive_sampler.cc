#include "tests/sampling/naive_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/base/philox.h"

namespace spillway {
namespace {

struct Entry {
  int32_t id;
  float logit;
};

std::vector<float> Adjust(const DrawInput& input, const SamplingParams& params) {
  std::vector<float> logits(input.logits.begin(), input.logits.end());
  const std::set<int32_t> seen(input.history.begin(), input.history.end());
  std::map<int32_t, int> output;
  for (size_t i = input.prompt_tokens; i < input.history.size(); ++i) ++output[input.history[i]];
  for (const int32_t token : seen) {
    double logit = logits[token];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (output.count(token) != 0) {
      logit -= params.presence_penalty + static_cast<double>(params.frequency_penalty) * output[token];
    }
    logits[token] = static_cast<float>(logit);
  }
  for (const auto& [token, bias] : params.logit_bias) {
    logits[token] = static_cast<float>(static_cast<double>(logits[token]) + bias);
  }
  if (input.history.size() - input.prompt_tokens < params.min_tokens) {
    for (const int32_t token : params.stop_ids) logits[token] = -std::numeric_limits<float>::infinity();
  }
  return logits;
}

double Sum(const std::vector<Entry>& entries, double max, double temperature) {
  double sum = 0.0;
  for (const Entry& e : entries) sum += std::exp((e.logit - max) / temperature);
  return sum;
}

void Filter(const SamplingParams& params, std::vector<Entry>& entries, double& margin) {
  const double max = entries[0].logit;
  if (params.top_k > 0 && params.top_k < entries.size()) entries.resize(params.top_k);
  if (params.top_p < 1.0f) {
    const double sum = Sum(entries, max, 1.0);
    double cumulated = 0.0;
    size_t kept = 0;
    while (kept < entries.size() && cumulated < params.top_p) {
      cumulated += std::exp(entries[kept++].logit - max) / sum;
      margin = std::min(margin, std::fabs(cumulated - params.top_p));
    }
    entries.resize(kept);
  }
  if (params.min_p > 0.0f) {
    std::erase_if(entries, [&](const Entry& e) {
      const double ratio = std::exp(e.logit - max) / params.min_p;
      margin = std::min(margin, std::fabs(ratio - 1.0));
      return ratio < 1.0;
    });
  }
}

}  // namespace

NaiveDraw DrawNaively(const DrawInput& input, const SamplingParams& params) {
  const std::vector<float> logits = Adjust(input, params);
  std::vector<Entry> entries;
  for (size_t i = 0; i < logits.size(); ++i) entries.push_back({static_cast<int32_t>(i), logits[i]});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  NaiveDraw draw{.token = entries[0].id};
  if (params.temperature > 0.0f) {
    const double max = entries[0].logit;
    Filter(params, entries, draw.margin);
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
    const double sum = Sum(entries, max, params.temperature);
    const double u = UniformDraw(params.seed, params.choice, input.position);
    double cumulated = 0.0;
    for (const Entry& e : entries) {
      cumulated += std::exp((e.logit - max) / params.temperature) / sum;
      draw.margin = std::min(draw.margin, std::fabs(cumulated - u));
      draw.token = e.id;
      if (u < cumulated) break;
    }
  }
  const double raw_max = *std::max_element(input.logits.begin(), input.logits.end());
  double raw_sum = 0.0;
  for (const float logit : input.logits) raw_sum += std::exp(logit - raw_max);
  draw.logprob = input.logits[draw.token] - raw_max - std::log(raw_sum);
  return draw;
}

}  // namespace spillway
