// Metrics of a GPU or CPU worker: its ledger, its stage, its verdict. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/ledger.h"

namespace spillway::telemetry {

class Registry;

class WorkerMetrics {
 public:
  // role: "gpu" | "cpu"; device: "host" | "cuda".
  WorkerMetrics(Registry& registry, const std::string& role, const std::string& device);
  ~WorkerMetrics();

  void StageCompute(std::string_view phase, double seconds,
                    uint32_t rows);  // also busy seconds and batch histogram
  void SetInflight(double count);
  void SetKvCache(uint64_t pages_used, uint64_t pages_total);
  void SetMemory(const PurposeBytes& allocated, uint64_t budget_bytes);
  void SetLayers(double planned, double loaded);
  void LayerSteps(uint64_t steps);  // executed on this device
  void AllocationFailures(uint64_t total);
  void SetState(std::string_view state);  // starting | loading | ready | degraded | draining
  void SetFallback(std::string_view cause, std::string_view extent);  // "" = none
  void SetModel(std::string_view name, std::string_view architecture, std::string_view quantization,
                uint32_t layers, uint32_t context);
  void WeightBytesRead(uint64_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::telemetry
