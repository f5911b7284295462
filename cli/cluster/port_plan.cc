// See port_plan.h.
#include "cli/cluster/port_plan.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

constexpr uint16_t kFirstCpuGrpc = 50100;
constexpr uint16_t kFirstCpuMetrics = 9600;

struct Use {
  uint16_t port;
  std::string what;
  const char* option;
};

std::vector<Use> Uses(const PortPlan& plan) {
  std::vector<Use> uses = {{plan.api, "the API", "--port"},
                           {plan.gateway_grpc, "the gateway's Generation service", "--port-base"},
                           {plan.admin, "the gateway's Cluster service", "--port-base"},
                           {plan.gateway_metrics, "the gateway's metrics", "--port-base"},
                           {plan.gpu_grpc, "the GPU worker", "--port-base"},
                           {plan.gpu_metrics, "the GPU worker's metrics", "--port-base"},
                           {plan.monitor_metrics, "the monitor", "--port-base"}};
  for (size_t i = 0; i < plan.cpu.size(); ++i) {
    uses.push_back({plan.cpu[i].grpc, fmt::format("cpu-worker-{}", i), "--port-base"});
    uses.push_back({plan.cpu[i].metrics, fmt::format("cpu-worker-{}'s metrics", i), "--port-base"});
  }
  return uses;
}

// The errno of binding the port on loopback, 0 when it is free.
int BindError(uint16_t port) {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return errno;
  const int yes = 1;  // connections of an earlier run that are closing do not count
  setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int error =
      bind(handle, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(handle);
  return error;
}

}  // namespace

absl::Status MakePortPlan(uint16_t api, std::optional<uint16_t> base, uint32_t cpu_workers, PortPlan* plan) {
  plan->api = api;
  plan->cpu.assign(cpu_workers, {});
  if (base.has_value()) {
    uint32_t next = *base;
    std::vector<uint16_t*> ports = {&plan->gateway_grpc, &plan->admin,       &plan->gateway_metrics,
                                    &plan->gpu_grpc,     &plan->gpu_metrics, &plan->monitor_metrics};
    for (CpuPorts& cpu : plan->cpu) ports.insert(ports.end(), {&cpu.grpc, &cpu.metrics});
    if (*base != 0 && *base + ports.size() > 65536) {
      return InvalidArgument("--port-base {}: {} listeners do not fit below port 65536", *base, ports.size());
    }
    for (uint16_t* port : ports) *port = static_cast<uint16_t>(*base == 0 ? 0 : next++);
  } else {
    for (uint32_t i = 0; i < cpu_workers; ++i) {
      plan->cpu[i] = {static_cast<uint16_t>(kFirstCpuGrpc + i), static_cast<uint16_t>(kFirstCpuMetrics + i)};
    }
  }
  std::map<uint16_t, std::string> taken;
  for (const Use& use : Uses(*plan)) {
    if (use.port == 0) continue;
    const auto [other, inserted] = taken.emplace(use.port, use.what);
    if (!inserted)
      return InvalidArgument("port {} is asked for by {} and by {}", use.port, other->second, use.what);
  }
  return absl::OkStatus();
}

absl::Status CheckPortsFree(const PortPlan& plan) {
  for (const Use& use : Uses(plan)) {
    if (use.port == 0) continue;
    const int error = BindError(use.port);
    if (error == EADDRINUSE) {
      return Unavailable("port {} for {} is in use; choose another with {} (0 = any free)", use.port,
                         use.what, use.option);
    }
    if (error != 0) return Unavailable("port {} for {}: {}", use.port, use.what, std::strerror(error));
  }
  return absl::OkStatus();
}

std::string Loopback(uint16_t port) { return fmt::format("127.0.0.1:{}", port); }

}  // namespace spillway::cli
