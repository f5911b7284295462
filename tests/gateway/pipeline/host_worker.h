// A worker in this process on a loopback port, with the host backend on a tiny model behind it. It can be
// killed and started again on its port.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/base/ledger.h"
#include "engine/cpu/host_stage.h"
#include "engine/model/config.h"
#include "rpc/server.h"
#include "rpc/worker_service.h"
#include "telemetry/registry.h"
#include "telemetry/worker_metrics.h"

namespace spillway::gateway::testing {

class HostWorker {
 public:
  HostWorker(const std::string& role, const Model& model) : role_(role), model_(model) { Start(); }
  ~HostWorker() { Kill(); }

  void Start() {
    ledger_ = std::make_unique<Ledger>();
    registry_ = std::make_unique<telemetry::Registry>(role_ + "-worker");
    metrics_ = std::make_unique<telemetry::WorkerMetrics>(*registry_, role_, "host");
    rpc::WorkerConfig config;
    config.role = role_;
    config.device = "host";
    config.identity = model_.file->identity();
    config.model_name = "tiny";
    service_ = std::make_unique<rpc::WorkerService>(
        config, model_, *ledger_,
        [this](const StageUnits& units, const StageOptions& options, Ledger& ledger,
               std::function<void(uint64_t)> progress) {
          return cpu::CreateHostStage(model_, units, options, ledger, std::move(progress));
        },
        *metrics_);
    rpc::ServerOptions options;
    options.name = "worker";
    options.address = address_;
    options.services = {service_->service()};
    absl::StatusOr<std::unique_ptr<rpc::Server>> server = rpc::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = server_->address();
  }
  // As abrupt as it gets inside one process: streams are cut.
  void Kill() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::milliseconds(0));
    server_.reset();
    service_.reset();
  }
  const std::string& address() const { return address_; }
  uint32_t open_sequences() { return service_->Describe().open_sequences(); }
  uint32_t free_pages() { return service_->Describe().free_pages(); }

 private:
  const std::string role_;
  const Model& model_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<telemetry::Registry> registry_;
  std::unique_ptr<telemetry::WorkerMetrics> metrics_;
  std::unique_ptr<rpc::WorkerService> service_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace spillway::gateway::testing
