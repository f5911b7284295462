// Start: signals, model, service, listeners, port file. Stop, in reverse: not ready, finish what runs, end
// streams, listeners, stage.
#include "rpc/worker_main.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "device/host.h"
#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "rpc/bandwidth_probe.h"
#include "rpc/server.h"
#include "rpc/worker_options.h"
#include "rpc/worker_service.h"
#include "telemetry/registry.h"

namespace spillway::rpc {

namespace {

constexpr std::chrono::milliseconds kDrainLimit{5000};
constexpr std::chrono::milliseconds kCloseLimit{500};

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Whole or not at all: readers never see half a file.
absl::Status WritePortFile(const std::string& path, const std::string& grpc, const std::string& metrics) {
  const std::string temporary = fmt::format("{}.{}", path, getpid());
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << nlohmann::json({{"grpc", grpc}, {"metrics", metrics}}).dump() << "\n";
    file.close();
    if (!file) return Unavailable("port file: cannot write {}", temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return Unavailable("port file: cannot rename {} to {}", temporary, path);
  }
  return absl::OkStatus();
}

std::string QuantizationOf(const Model& model) {
  if (model.layers.empty() || model.layers[0].ffn_down == nullptr) return "unknown";
  return std::string(FormatOf(model.layers[0].ffn_down->type).name);
}

struct Worker {
  WorkerFlags flags;
  device::HostFacts host;
  Model model;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<telemetry::Registry> registry;
  std::unique_ptr<telemetry::WorkerMetrics> metrics;
  std::unique_ptr<WorkerService> service;
  std::unique_ptr<telemetry::HealthServer> health;  // asks the service
  std::unique_ptr<Server> server;                   // calls the service: goes first
};

uint64_t Budget(const Worker& worker) {
  if (worker.flags.budget_bytes.has_value()) return *worker.flags.budget_bytes;
  const uint64_t available = worker.host.AvailableBytes();
  return available > 0 ? available : Ledger::kUnlimited;
}

absl::Status Start(const WorkerProgram& program, Worker* worker) {
  worker->host = device::ReadHost(device::Root());
  const uint32_t processors = std::max(
      1u, worker->host.cpus_allowed > 0 ? worker->host.cpus_allowed : std::thread::hardware_concurrency());
  const uint32_t threads = worker->flags.threads > 0 ? worker->flags.threads : processors;
  SPILLWAY_ASSIGN_OR_RETURN(worker->model, LoadModel(worker->flags.model));
  const Model& model = worker->model;
  worker->ledger = std::make_unique<Ledger>(Budget(*worker));
  worker->registry = std::make_unique<telemetry::Registry>(program.role + "-worker");
  worker->metrics = std::make_unique<telemetry::WorkerMetrics>(*worker->registry, program.role, "host");
  worker->metrics->SetModel(model.config.name, model.config.architecture, QuantizationOf(model),
                            model.config.n_layer, model.config.n_ctx_train);
  BandwidthOptions probe;
  probe.threads = static_cast<int>(threads);
  WorkerConfig config;
  config.role = program.role;
  config.device = "host";
  config.device_name = worker->host.cpu_name;
  config.isa = std::string(cpu::IsaName(cpu::DetectIsa()));
  config.threads = threads;
  config.read_bandwidth = MeasureReadBandwidth(probe);
  config.identity = model.file->identity();
  config.model_name = model.config.name;
  config.version = telemetry::kVersion;
  worker->service = std::make_unique<WorkerService>(
      config, model, *worker->ledger,
      [&model](const StageUnits& units, const StageOptions& options, Ledger& ledger,
               std::function<void(uint64_t)> progress) {
        return cpu::CreateHostStage(model, units, options, ledger, std::move(progress));
      },
      *worker->metrics);

  SPILLWAY_ASSIGN_OR_RETURN(worker->health,
                            telemetry::HealthServer::Start(worker->flags.metrics, *worker->registry));
  worker->health->SetReadiness([service = worker->service.get()] { return service->NotReadyReason(); });
  ServerOptions options;
  options.name = "worker";
  options.address = worker->flags.listen;
  options.insecure = std::find(worker->flags.insecure.begin(), worker->flags.insecure.end(), "worker") !=
                     worker->flags.insecure.end();
  options.services = {worker->service->service()};
  SPILLWAY_ASSIGN_OR_RETURN(worker->server, Server::Start(options));
  worker->service->OnReadiness([server = worker->server.get()](bool ready) { server->SetReady(ready); });

  SPILLWAY_ASSIGN_OR_RETURN(HostPort metrics, ParseHostPort(worker->flags.metrics));
  const std::string metrics_address = fmt::format("{}:{}", metrics.host, worker->health->port());
  spdlog::info(
      "event=listening grpc={} metrics={} role={} device=host isa={} threads={} budget_bytes={} model=\"{}\" "
      "identity={}",
      worker->server->address(), metrics_address, config.role, config.isa, config.threads,
      worker->ledger->budget_bytes(), config.model_name, config.identity);
  if (worker->flags.port_file.empty()) return absl::OkStatus();
  return WritePortFile(worker->flags.port_file, worker->server->address(), metrics_address);
}

void Stop(Worker* worker) {
  if (worker->service != nullptr && worker->server != nullptr) {
    worker->service->ShutDown(kDrainLimit);
    worker->server->Shutdown(kCloseLimit);
  }
  // Who asks for readiness goes before what answers.
  worker->health.reset();
  if (worker->service != nullptr) worker->service->OnReadiness({});
  worker->server.reset();
  worker->service.reset();
}

}  // namespace

int RunWorker(const WorkerProgram& program, int argc, char** argv) {
  ParsedFlags parsed = ParseWorkerFlags(program, argc, argv);
  if (parsed.exit_code.has_value()) return *parsed.exit_code;
  telemetry::SetUpLogging(program.role + "-worker");
  SilenceLibraryLog();
  // Before the first thread starts, so that every thread inherits it and only the wait below sees them.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (parsed.flags.exit_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  try {
    Worker worker;
    worker.flags = std::move(parsed.flags);
    const absl::Status status = Start(program, &worker);
    if (!status.ok()) {
      spdlog::error("event=start_failed error=\"{}\"", MessageOf(status));
      Stop(&worker);
      return 1;
    }
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("event=stopping signal={}", signal);
    Stop(&worker);
    spdlog::info("event=stopped");
    return 0;
  } catch (const std::exception& error) {
    spdlog::error("event=failed error=\"{}\"", error.what());
    return 1;
  }
}

}  // namespace spillway::rpc
