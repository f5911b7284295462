// A stage that computes something simple: each row's activations are increased by 1, or, on the head, the
// token drawn for a row is its own token plus one. Sequences, prefixes and pages behave as in a real backend.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/stage/sequence_table.h"
#include "engine/stage/stage.h"

namespace spillway::test {

// Holds Forward until it is opened; counts who waits.
class Gate {
 public:
  void Close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --waiting_;
  }
  void AwaitWaiting() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

class FakeStage final : public Stage {
 public:
  FakeStage(StageUnits units, StageOptions options, uint32_t n_embd, uint32_t n_vocab, Gate* gate,
            Buffer buffer)
      : units_(units),
        options_(options),
        n_embd_(n_embd),
        n_vocab_(n_vocab),
        gate_(gate),
        buffer_(std::move(buffer)),
        table_(options, n_vocab) {}

  const StageUnits& units() const override { return units_; }
  const StageOptions& options() const override { return options_; }
  PurposeBytes Allocated() const override {
    PurposeBytes bytes;
    bytes[Purpose::kWeights] = buffer_.size();
    return bytes;
  }
  absl::Status Open(SequenceId id, const SequenceOptions& options) override {
    SPILLWAY_RETURN_IF_ERROR(ValidateSamplingParams(options.sampling, n_vocab_));
    return table_.Open(id, options);
  }
  absl::Status Fork(SequenceId source, SequenceId target, uint32_t tokens) override {
    return table_.Fork(source, target, tokens).status();
  }
  void Close(SequenceId id) override { table_.Close(id); }
  void CloseAll() override { table_.CloseAll(); }
  uint32_t FreePages() const override { return table_.FreePages(); }

  absl::Status Forward(const MicroBatch& batch, ForwardOutput* output) override {
    if (gate_ != nullptr) gate_->Pass();
    results_.assign(batch.segments.size(), SegmentResult());
    activations_.clear();
    sampled_.clear();
    logits_.assign(n_vocab_, 0.5f);
    uint64_t row = 0, rows = 0;
    for (size_t i = 0; i < batch.segments.size(); ++i) {
      const Segment& segment = batch.segments[i];
      table_.Prepare(segment, &results_[i]);
      const uint64_t first = row;
      row += segment.count();
      if (results_[i].code != SegmentCode::kOk) continue;
      rows += segment.count();
      for (uint32_t r = 0; r < segment.count(); ++r) {
        if (!units_.head) {
          for (uint32_t j = 0; j < n_embd_; ++j) {
            const float in = units_.embedding ? static_cast<float>(segment.tokens[r])
                                              : batch.activations[(first + r) * n_embd_ + j];
            activations_.push_back(in + 1.0f);
          }
          continue;
        }
        const bool wanted = segment.outputs == Outputs::kAll ||
                            (segment.outputs == Outputs::kLast && r + 1 == segment.count());
        if (!wanted) continue;
        SampledRow& sample = sampled_.emplace_back();
        sample.segment = static_cast<uint32_t>(i);
        sample.position = segment.begin + r;
        sample.chosen = {segment.tokens[r] + 1, -0.25f};
        if (segment.return_logits) sample.logits = logits_;
      }
    }
    output->segments = results_;
    output->activations = activations_;
    output->sampled = sampled_;
    output->layer_steps = rows * units_.Layers();
    return absl::OkStatus();
  }

 private:
  const StageUnits units_;
  const StageOptions options_;
  const uint32_t n_embd_, n_vocab_;
  Gate* const gate_;
  Buffer buffer_;
  SequenceTable table_;
  std::vector<SegmentResult> results_;
  std::vector<float> activations_, logits_;
  std::vector<SampledRow> sampled_;
};

}  // namespace spillway::test
