// The planner: from a model's header, the workers' profiles and the user's limits to a placement with its
// bytes by purpose, before anything is loaded. The bytes come from the same layout code that allocates (law
// 3).
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/model/config.h"
#include "engine/stage/stage.h"

namespace spillway {

// What one worker offers.
struct WorkerProfile {
  std::string device = "host";  // "host" | "cuda"
  uint64_t budget_bytes = Ledger::kUnlimited;
  uint32_t threads = 1;
};

struct PlanOptions {
  enum class GpuLayers : uint8_t { kAuto, kAll, kCount };
  GpuLayers gpu_layers = GpuLayers::kAuto;
  uint32_t n_gpu_layers = 0;  // with kCount: the last N blocks; the head is not counted and stays on the GPU
  uint32_t n_ctx = 0;         // tokens per sequence; 0 = 4096, or what the model was trained for if less
  uint32_t parallel = 4;      // sequences the page pool is sized for
  uint32_t max_rows = 256;    // of a micro-batch
  CacheType cache_type_k = CacheType::kF16;
  CacheType cache_type_v = CacheType::kF16;
  WorkerProfile gpu;
  std::vector<WorkerProfile> cpu;  // CPU workers in a row, in token order; may be empty
};

struct PlannedStage {
  bool gpu = false;
  uint32_t worker = 0;  // index into PlanOptions::cpu; 0 for the GPU worker
  StageUnits units;
  StageOptions options;
  PurposeBytes bytes;
};

struct Plan {
  std::vector<PlannedStage> stages;  // in token order; CPU stages first by default
  uint32_t n_layer = 0;
  uint32_t n_gpu_layers = 0;  // resident
  uint32_t n_ctx = 0;
  uint32_t parallel = 0;
  bool spilled() const { return n_gpu_layers < n_layer; }
};

// Auto takes the most layers that fit the GPU worker's budget; the rest is divided evenly over the CPU
// workers. ResourceExhausted (with bytes needed, budget, and what would fit: the largest context, the number
// of layers) when a fixed number does not fit, when not even the head does, or when layers spill and there is
// no CPU worker or its budget is too small. InvalidArgument for n_ctx 0, n_gpu_layers > n_layer, and the
// like.
absl::StatusOr<Plan> MakePlan(const Model& model, const PlanOptions& options);

// "--n-gpu-layers" values: "auto", "all" or a number.
absl::Status ParseGpuLayers(const std::string& text, PlanOptions* options);
// "64MiB", "8GiB", "1.5GB", "1048576" → bytes.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);
// 67108864 → "64.0 MiB".
std::string FormatBytesHuman(uint64_t bytes);

}  // namespace spillway
