// The Worker service that both workers run: who owns the worker (epochs), what it was asked to hold, and
// whether what runs is what was planned. The stage itself lives on StageRunner's thread; the backend comes as
// a factory.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/ledger.h"
#include "engine/model/config.h"
#include "engine/stage/stage.h"
#include "rpc/forward_stream.h"
#include "rpc/stage_runner.h"
#include "spillway/v1/worker.grpc.pb.h"
#include "telemetry/worker_metrics.h"
#include "truth/verdict.h"

namespace spillway::rpc {

struct WorkerConfig {
  std::string role;         // "gpu" | "cpu"
  std::string device;       // "host" | "cuda": what runs the layers
  std::string device_name;  // CPU or GPU model
  std::string isa;
  uint32_t threads = 1;
  double read_bandwidth = 0;  // bytes per second; 0 = not measured
  std::string identity;       // of the model file
  std::string model_name;
  std::string version;
  bool local_plane = true;  // offer gateways on this host a Unix socket for the frames
};

using StageFactory = std::function<absl::StatusOr<std::unique_ptr<Stage>>(
    const StageUnits&, const StageOptions&, Ledger&, std::function<void(uint64_t)> progress)>;
using JudgeFunction = std::function<truth::Verdict(const truth::WorkerFacts&)>;

// Thread-safe. Register it as service(); destroy the server first.
class WorkerService final : public StreamHost {
 public:
  // model, ledger and metrics outlive it.
  WorkerService(WorkerConfig config, const Model& model, Ledger& ledger, StageFactory factory,
                telemetry::WorkerMetrics& metrics, JudgeFunction judge = truth::Judge);
  ~WorkerService() override;

  grpc::Service* service();
  // Called at once and whenever the state changes; must return at once.
  void OnReadiness(std::function<void(bool)> callback);
  // "" when ready, else the state or the cause.
  std::string NotReadyReason();

  size_t waiting() const { return runner_.queue().size(); }  // items to compute

  v1::DescribeReply Describe();
  absl::Status LoadStage(const v1::LoadStageRequest& request,
                         const std::function<void(const v1::LoadStageProgress&)>& progress);
  absl::Status UnloadStage(uint64_t epoch);
  absl::StatusOr<uint32_t> Drain(uint64_t epoch);  // open sequences

  // Refuses new work, waits (up to `deadline`) until no sequence is open or none has moved for a while, and
  // ends the stream with Unavailable.
  void ShutDown(std::chrono::milliseconds deadline);

  absl::StatusOr<ForwardLimits> Attach(const std::shared_ptr<ForwardStream>& stream, uint64_t epoch) override;
  void Detach(const ForwardStream* stream) override;
  void Work() override { runner_.Work(); }
  LocalListener* local_plane() override { return local_.get(); }

 private:
  class Service;
  struct Wanted {
    StageUnits units;
    StageOptions options;
  };
  absl::StatusOr<Wanted> CheckRequest(const v1::LoadStageRequest& request) const;
  absl::Status CheckEpoch(uint64_t epoch) const;  // with mutex_
  void EndStream(const absl::Status& status);     // with mutex_
  absl::Status Load(const Wanted& wanted, const std::function<void(const v1::LoadStageProgress&)>& progress);
  std::string State(const StageRunner::Counters& counters,
                    const truth::Verdict& verdict) const;                            // with mutex_
  truth::WorkerFacts Facts(const StageRunner::Counters& counters) const;             // with mutex_
  truth::Verdict Review(const StageRunner::Counters& counters, std::string* state);  // with mutex_
  void ReviewAfterForward();
  void Review();

  const WorkerConfig config_;
  const Model& model_;
  Ledger& ledger_;
  const StageFactory factory_;
  telemetry::WorkerMetrics& metrics_;
  const JudgeFunction judge_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();

  std::mutex mutex_;
  std::condition_variable load_changed_;
  std::function<void(bool)> on_readiness_;
  uint64_t owner_epoch_ = 0;
  bool loading_ = false;
  bool refused_ = false;  // the last load got no memory; until one does, a new try changes no verdict
  bool draining_ = false;
  bool shutting_down_ = false;
  v1::Expected expected_;
  bool has_expected_ = false;
  std::shared_ptr<ForwardStream> current_;  // shared with gRPC until the stream is done
  std::string last_state_;
  std::string last_cause_;
  std::atomic<int64_t> next_review_ns_{0};

  std::unique_ptr<Service> service_;
  StageRunner runner_;                    // its thread calls back
  std::unique_ptr<LocalListener> local_;  // last: its threads compute
};

}  // namespace spillway::rpc
