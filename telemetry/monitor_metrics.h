// Metrics of the monitor: its verdict on every configured worker and the system's view of devices.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::telemetry {

class Registry;

class MonitorMetrics {
 public:
  // One set of series per configured worker's and watched engine's name.
  MonitorMetrics(Registry& registry, const std::vector<std::string>& workers,
                 const std::vector<std::string>& engines = {});
  ~MonitorMetrics();

  void SetWorker(const std::string& worker, bool up, double layers_planned, double layers_executed);
  void SetVerdict(const std::string& worker, std::string_view cause);  // "" = none
  void Transition(const std::string& worker);
  void SetEngine(const std::string& engine, bool up, double vram_share, std::string_view cause);
  void SetGatewayUp(bool up);
  void RoundDone();
  // device: "host" | "cuda"
  void SetDevice(std::string_view device, bool present, uint64_t total_bytes, uint64_t free_bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::telemetry
