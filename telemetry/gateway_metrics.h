// Metrics of the gateway: names, help and buckets stand in one table (telemetry/catalogue.cc); every label
// combination is created at 0. Methods are thread-safe and cheap enough for the token path.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace spillway::telemetry {

class Registry;

struct HopSample {
  std::string_view stage;                                       // "gpu" | "cpu"
  std::string_view phase;                                       // "prefill" | "decode"
  double queue = 0, compute = 0, serialize = 0, transport = 0;  // seconds; they sum to the hop
  uint64_t sent_bytes = 0, received_bytes = 0;                  // activation bytes without framing
};

class GatewayMetrics {
 public:
  GatewayMetrics(Registry& registry, const std::string& model);
  ~GatewayMetrics();

  // endpoint: chat_completions | completions | generate; outcome: ok | client_error | rejected | error |
  // cancelled
  void RequestFinished(std::string_view endpoint, std::string_view outcome, double seconds);
  void FirstToken(double seconds);
  void InterToken(double seconds);
  void TimePerOutputToken(double seconds);
  void Phases(double queue, double prefill, double decode);
  void Tokens(uint64_t prompt,
              uint64_t generated);  // of a finished request, also observes the size histograms
  void SetRunning(double count);
  void SetWaiting(double count);
  // queue_full | too_large | rate_limited | no_worker | draining | unauthenticated
  void Rejected(std::string_view reason);
  void Preempted();
  void Hop(const HopSample& sample);
  void HopError(std::string_view stage, std::string_view code);  // gRPC code name
  void SetHopInflight(std::string_view stage, double count);
  void PipelineStall(std::string_view stage, double seconds);
  // state: ready | draining | degraded | unreachable | incompatible
  void SetWorkers(std::string_view stage, std::string_view state, double count);
  // memory: vram | ram | mmap
  void SetLayers(std::string_view stage, std::string_view memory, double planned, double actual);
  void SetWeightsBytes(std::string_view memory, double bytes);
  void WorkerHeartbeat(std::string_view stage, std::string_view peer, double unix_seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::telemetry
