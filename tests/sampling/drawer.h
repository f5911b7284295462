// One sampler with its scratch for a given vocabulary, so that a test states only what it varies.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "engine/sampling/sampler.h"

namespace spillway {

class Drawer {
 public:
  explicit Drawer(std::vector<float> logits, std::vector<int32_t> history = {}, uint32_t prompt_tokens = 0)
      : logits_(std::move(logits)), history_(std::move(history)), prompt_tokens_(prompt_tokens) {
    const auto n_vocab = static_cast<uint32_t>(logits_.size());
    const size_t bytes = SamplerScratch::Bytes(n_vocab);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
    // Dirty on purpose: the sampler may not count on zeroed scratch.
    std::fill_n(memory_.get(), bytes, std::byte{0xa5});
    scratch_ = std::make_unique<SamplerScratch>(std::span(memory_.get(), bytes), n_vocab);
  }

  TokenLogprob DrawWithLogprobs(const SamplingParams& params, uint64_t position,
                                std::span<TokenLogprob> top) {
    return DrawToken({logits_, history_, prompt_tokens_, position}, params, *scratch_, top);
  }
  int32_t Draw(const SamplingParams& params, uint64_t position = 0) {
    return DrawWithLogprobs(params, position, {}).token;
  }
  // Every token that occurs among many draws.
  std::set<int32_t> Support(const SamplingParams& params, uint64_t draws = 2000) {
    std::set<int32_t> tokens;
    for (uint64_t position = 0; position < draws; ++position) tokens.insert(Draw(params, position));
    return tokens;
  }
  std::vector<float>& logits() { return logits_; }
  const std::vector<int32_t>& history() const { return history_; }
  uint32_t prompt_tokens() const { return prompt_tokens_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<float> logits_;
  std::vector<int32_t> history_;
  uint32_t prompt_tokens_;
  std::unique_ptr<std::byte[], Free> memory_;
  std::unique_ptr<SamplerScratch> scratch_;
};

}  // namespace spillway
