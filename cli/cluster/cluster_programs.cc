// The flags each program is started with, and what the running cluster looks like from outside.
#include <fmt/core.h>
#include <unistd.h>

#include "cli/cluster/cluster.h"
#include "engine/stage/units_text.h"

namespace spillway::cli {

Child& Cluster::Add(const std::string& name, const std::string& program, std::vector<Listener> listeners) {
  ChildSpec spec;
  spec.name = name;
  spec.program = programs_ + "/" + program;
  spec.listeners = std::move(listeners);
  spec.port_file = directory_.PortFile(name);
  if (!setup_.verbose) spec.log_file = directory_.LogFile(name);
  children_.push_back(std::make_unique<Child>(std::move(spec)));
  return *children_.back();
}

void Cluster::AddWorkers() {
  const PlanOptions& options = setup_.plan.options;
  const auto add = [&](const std::string& name, const std::string& program, const CpuPorts& ports,
                       std::vector<std::string> arguments) {
    Child& child =
        Add(name, program,
            {{"--listen", "grpc", Loopback(ports.grpc)}, {"--metrics", "metrics", Loopback(ports.metrics)}});
    child.AddArguments({"--model", setup_.model});
    child.AddArguments(std::move(arguments));
  };
  const auto budget = [](const char* flag, uint64_t bytes) {
    return bytes == Ledger::kUnlimited ? std::vector<std::string>{}
                                       : std::vector<std::string>{flag, std::to_string(bytes)};
  };
  for (size_t i = 0; i < options.cpu.size(); ++i) {
    std::vector<std::string> arguments = budget("--ram-budget", options.cpu[i].budget_bytes);
    arguments.insert(arguments.end(), {"--threads", std::to_string(options.cpu[i].threads)});
    add(fmt::format("cpu-worker-{}", i), "spillway-cpu-worker", setup_.ports.cpu[i], std::move(arguments));
  }
  std::vector<std::string> arguments = budget("--vram-budget", options.gpu.budget_bytes);
  arguments.insert(arguments.end(),
                   {"--device", setup_.plan.device, "--threads", std::to_string(options.gpu.threads)});
  add("gpu-worker", "spillway-gpu-worker", {setup_.ports.gpu_grpc, setup_.ports.gpu_metrics},
      std::move(arguments));
}

void Cluster::AddGateway() {
  std::vector<std::string> arguments = {"--model",        setup_.model,
                                        "--n-gpu-layers", setup_.n_gpu_layers,
                                        "--ctx-size",     std::to_string(setup_.plan.plan.n_ctx),
                                        "--parallel",     std::to_string(setup_.plan.plan.parallel),
                                        "--max-rows",     std::to_string(setup_.plan.options.max_rows)};
  const PlanOptions& plan = setup_.plan.options;
  arguments.push_back(fmt::format("--cache-type-k={}", CacheTypeName(plan.cache_type_k)));
  arguments.push_back(fmt::format("--cache-type-v={}", CacheTypeName(plan.cache_type_v)));
  for (const auto& child : children_) {
    const char* flag = child->name() == "gpu-worker" ? "--gpu-worker" : "--cpu-worker";
    arguments.insert(arguments.end(), {flag, child->Address("grpc")});
  }
  if (!setup_.data_plane.empty()) arguments.push_back("--data-plane=" + setup_.data_plane);
  if (!setup_.model_name.empty()) arguments.push_back("--served-name=" + setup_.model_name);
  for (const std::string& host : setup_.allowed_hosts) arguments.push_back("--allowed-host=" + host);
  for (const std::string& origin : setup_.allowed_origins) arguments.push_back("--allowed-origin=" + origin);
  const PortPlan& ports = setup_.ports;
  Child& gateway = Add("gateway", "spillway-gateway",
                       {{"--http", "api", Loopback(ports.api)},
                        {"--grpc", "grpc", Loopback(ports.gateway_grpc)},
                        {"--admin", "admin", Loopback(ports.admin)},
                        {"--metrics", "metrics", Loopback(ports.gateway_metrics)}});
  gateway.AddArguments(std::move(arguments));
}

void Cluster::AddMonitor() {
  std::vector<std::string> arguments = {"--gateway-admin", admin()};
  for (const auto& child : children_) {
    if (child->name() == "gateway") continue;
    arguments.insert(arguments.end(), {"--worker", child->name() + "=" + child->Address("grpc")});
  }
  Child& monitor =
      Add("monitor", "spillway-monitor", {{"--metrics", "metrics", Loopback(setup_.ports.monitor_metrics)}});
  monitor.AddArguments(std::move(arguments));
}

std::string Cluster::api_url() const { return "http://" + gateway().Address("api"); }

std::string Cluster::status_url() const { return "http://" + children_.back()->Address("metrics") + "/"; }

nlohmann::ordered_json Cluster::Description() const {
  nlohmann::ordered_json processes = nlohmann::ordered_json::array();
  const auto add = [&processes](const Child& child) {
    nlohmann::ordered_json grpc;  // null for the monitor
    if (const std::string address = child.Address("grpc"); !address.empty()) grpc = address;
    processes.push_back({{"name", child.name()},
                         {"pid", child.pid()},
                         {"grpc", grpc},
                         {"metrics", "http://" + child.Address("metrics") + "/metrics"}});
  };
  // In the order people read them: gateway, GPU worker, CPU workers, monitor.
  for (const std::string_view kind : {"gateway", "gpu-worker", "cpu-worker-", "monitor"}) {
    for (const auto& child : children_) {
      if (std::string_view(child->name()).substr(0, kind.size()) == kind) add(*child);
    }
  }
  return {{"api", api_url()},
          {"status", status_url()},
          {"admin", gateway().Address("admin")},
          {"processes", processes}};
}

void Cluster::WriteClusterFile() const {
  nlohmann::ordered_json cluster = Description();
  cluster["pid"] = getpid();
  cluster["admin"] = admin();
  cluster["model"] = setup_.model;
  if (const absl::Status status = directory_.WriteClusterFile(cluster); !status.ok()) {
    fmt::print(stderr, "spillway: {}; `spillway ps` needs --admin {}\n", std::string(status.message()),
               admin());
  }
}

}  // namespace spillway::cli
