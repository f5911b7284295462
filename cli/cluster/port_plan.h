// Which process listens where. Ports of 0 are chosen by the processes themselves at their first start.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway::cli {

struct CpuPorts {
  uint16_t grpc = 0;
  uint16_t metrics = 0;
};

// The defaults are the documented ones of each program.
struct PortPlan {
  uint16_t api = 8080;
  uint16_t gateway_grpc = 50050;
  uint16_t admin = 50060;
  uint16_t gateway_metrics = 9560;
  uint16_t gpu_grpc = 50051;
  uint16_t gpu_metrics = 9561;
  uint16_t monitor_metrics = 9563;
  std::vector<CpuPorts> cpu;
};

// With `base`: all listeners but the API in a row from there, or any free ones for 0. InvalidArgument when
// they do not fit below 65536 or two are the same.
absl::Status MakePortPlan(uint16_t api, std::optional<uint16_t> base, uint32_t cpu_workers, PortPlan* plan);

// Unavailable names the first port that is taken, what it was for and the option that moves it.
absl::Status CheckPortsFree(const PortPlan& plan);

std::string Loopback(uint16_t port);  // "127.0.0.1:PORT"

}  // namespace spillway::cli
