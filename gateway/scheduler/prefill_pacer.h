// How many prompt rows a micro-batch may carry, so that no stage computes longer than the target on them and
// decode rows never wait longer behind them. Learns from measured compute time; knows no sequences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace spillway::gateway {

// Confined to the scheduler's turn.
class PrefillPacer {
 public:
  PrefillPacer(size_t stages, uint32_t max_rows, double target_seconds)
      : seconds_per_row_(stages, 0.0),
        max_rows_(max_rows),
        target_seconds_(target_seconds),
        rows_(std::min(kFirstRows, max_rows)) {}

  uint32_t rows() const { return rows_; }

  // A micro-batch with `rows` rows, most of them prompt, took `seconds` on `stage`. Batches far below the
  // present size say nothing about cost per row (weights are read once per batch) unless they alone miss the
  // target.
  void Measured(size_t stage, uint32_t rows, double seconds) {
    if (rows == 0 || seconds <= 0) return;
    if (rows * 2 < rows_ && seconds < target_seconds_) return;
    double& estimate = seconds_per_row_[stage];
    const double sample = seconds / rows;
    estimate = estimate == 0 ? sample : estimate + (sample - estimate) / 4;
    const double slowest = *std::max_element(seconds_per_row_.begin(), seconds_per_row_.end());
    rows_ = static_cast<uint32_t>(std::clamp(target_seconds_ / slowest, 1.0, static_cast<double>(max_rows_)));
  }

 private:
  static constexpr uint32_t kFirstRows = 32;
  std::vector<double> seconds_per_row_;
  const uint32_t max_rows_;
  const double target_seconds_;
  uint32_t rows_;
};

}  // namespace spillway::gateway
