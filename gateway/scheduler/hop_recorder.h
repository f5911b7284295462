// Accounts for hops: their parts for the metrics and the last minute's means for the status, how long stages
// stand idle while work is in flight, and the token rate. Decides nothing.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "gateway/scheduler/sequence.h"
#include "rpc/stage_client.h"
#include "telemetry/gateway_metrics.h"

namespace spillway::gateway {

struct HopMeans {  // seconds
  double queue = 0, compute = 0, serialize = 0, transport = 0;
};

// Sums of the last minute in buckets of one second.
template <size_t kValues>
class MinuteWindow {
 public:
  void Add(int64_t second, const std::array<double, kValues>& values) {
    Bucket& bucket = buckets_[static_cast<size_t>(second) % buckets_.size()];
    if (bucket.second != second) bucket = Bucket{second, 0, {}};
    ++bucket.count;
    for (size_t i = 0; i < kValues; ++i) bucket.sums[i] += values[i];
  }
  // Returns how many were added; `oldest` is the first second with one.
  uint64_t Sum(int64_t now, std::array<double, kValues>* sums, int64_t* oldest) const {
    uint64_t count = 0;
    *sums = {};
    *oldest = now;
    for (const Bucket& bucket : buckets_) {
      if (bucket.count == 0 || bucket.second <= now - static_cast<int64_t>(buckets_.size())) continue;
      count += bucket.count;
      if (bucket.second < *oldest) *oldest = bucket.second;
      for (size_t i = 0; i < kValues; ++i) (*sums)[i] += bucket.sums[i];
    }
    return count;
  }

 private:
  struct Bucket {
    int64_t second = 0;
    uint64_t count = 0;
    std::array<double, kValues> sums = {};
  };
  std::array<Bucket, 60> buckets_;
};

// Sent, Answered, Lost and Token are called in the scheduler's turn, the getters on any thread.
class HopRecorder {
 public:
  // roles[i]: stage i is a GPU stage. `metrics` may be null and outlives the recorder.
  HopRecorder(std::vector<bool> gpu_stages, telemetry::GatewayMetrics* metrics);

  void Sent(uint32_t stage, TimePoint now);
  void Answered(uint32_t stage, const rpc::HopReply& reply, bool prefill, TimePoint now);
  void Lost(uint32_t stage, absl::StatusCode code, TimePoint now);  // everything in flight on it
  void Error(uint32_t stage, absl::StatusCode code);
  void Token(TimePoint now);

  HopMeans DecodeMeans(uint32_t stage, TimePoint now) const;
  double TokensPerSecond(TimePoint now) const;

 private:
  struct StageAccount {
    bool gpu = false;
    uint32_t in_flight = 0;
    MinuteWindow<4> decode;
  };
  std::string_view Role(uint32_t stage) const { return stages_[stage].gpu ? "gpu" : "cpu"; }
  void AccountIdleTime(TimePoint now);
  void PublishInflight(uint32_t stage);

  telemetry::GatewayMetrics* const metrics_;
  TimePoint last_change_;
  mutable std::mutex mutex_;  // guards the windows
  std::vector<StageAccount> stages_;
  MinuteWindow<1> tokens_;
};

// "UNAVAILABLE" and so on.
std::string_view GrpcCodeName(absl::StatusCode code);

}  // namespace spillway::gateway
