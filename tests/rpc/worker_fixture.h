// A worker in this process, on a loopback port, with the fake stage behind it; and a client's events as a
// queue that a test waits on.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/base/ledger.h"
#include "rpc/convert.h"
#include "rpc/server.h"
#include "rpc/stage_client.h"
#include "rpc/worker_service.h"
#include "telemetry/registry.h"
#include "tests/rpc/fake_stage.h"

namespace spillway::test {

inline constexpr std::chrono::milliseconds kLong{20000};  // a deadline that only a hung test meets
inline constexpr char kIdentity[] = "aa11";
inline constexpr uint64_t kWeights = 4096;

// Thread-safe.
class Events {
 public:
  rpc::StageEvents Callbacks() {
    return {[this](rpc::HopReply reply) { Add(&replies_, std::move(reply)); },
            [this](v1::SequenceError error) { Add(&errors_, std::move(error)); },
            [this](absl::Status status) { Add(&lost_, std::move(status)); }};
  }
  rpc::HopReply Reply() { return Take(&replies_); }
  v1::SequenceError Error() { return Take(&errors_); }
  absl::Status Lost() { return Take(&lost_); }
  size_t lost_count() {
    const std::lock_guard lock(mutex_);
    return lost_.size();
  }

 private:
  template <typename T>
  void Add(std::deque<T>* queue, T value) {
    const std::lock_guard lock(mutex_);
    queue->push_back(std::move(value));
    changed_.notify_all();
  }
  template <typename T>
  T Take(std::deque<T>* queue) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLong, [&] { return !queue->empty(); })) {
      ADD_FAILURE() << "nothing came";
      return T();
    }
    T value = std::move(queue->front());
    queue->pop_front();
    return value;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<rpc::HopReply> replies_;
  std::deque<v1::SequenceError> errors_;
  std::deque<absl::Status> lost_;
};

struct WorkerOptions {
  uint32_t n_embd = 8;
  uint32_t n_vocab = 100;
  uint64_t budget = Ledger::kUnlimited;
  Gate* gate = nullptr;
  Gate* load_gate = nullptr;
};

inline Model FakeModel(const WorkerOptions& options) {
  Model model;
  model.config.n_layer = 4;
  model.config.n_embd = options.n_embd;
  model.config.n_vocab = options.n_vocab;
  return model;
}

class Worker {
 public:
  explicit Worker(WorkerOptions options = {})
      : options_(options), model_(FakeModel(options)), ledger_(options.budget) {
    spdlog::set_level(spdlog::level::err);
    rpc::WorkerConfig config;
    config.role = "cpu";
    config.device = "host";
    config.identity = kIdentity;
    config.model_name = "fake";
    service_ = std::make_unique<rpc::WorkerService>(
        config, model_, ledger_,
        [this](const StageUnits& units, const StageOptions& stage_options, Ledger& ledger,
               std::function<void(uint64_t)> progress) -> absl::StatusOr<std::unique_ptr<Stage>> {
          if (options_.load_gate != nullptr) options_.load_gate->Pass();
          ++loads_;
          SPILLWAY_ASSIGN_OR_RETURN(Buffer buffer, ledger.Allocate(Purpose::kWeights, kWeights, "weights"));
          progress(kWeights);
          return std::unique_ptr<Stage>(new FakeStage(units, stage_options, options_.n_embd, options_.n_vocab,
                                                      options_.gate, std::move(buffer)));
        },
        metrics_);
    rpc::ServerOptions server;
    server.name = "worker";
    server.address = "127.0.0.1:0";
    server.services = {service_->service()};
    absl::StatusOr<std::unique_ptr<rpc::Server>> started = rpc::Server::Start(server);
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    service_->OnReadiness([this](bool ready) { server_->SetReady(ready); });
  }
  ~Worker() {
    service_->ShutDown(std::chrono::milliseconds(0));
    server_->Shutdown(std::chrono::milliseconds(0));
    service_->OnReadiness({});
    server_.reset();
  }

  const std::string& address() const { return server_->address(); }
  rpc::WorkerService& service() { return *service_; }
  int loads() const { return loads_; }
  const Model& model() const { return model_; }

 private:
  const WorkerOptions options_;
  Model model_;
  Ledger ledger_;
  telemetry::Registry registry_{"cpu-worker"};
  telemetry::WorkerMetrics metrics_{registry_, "cpu", "host"};
  std::atomic<int> loads_{0};
  std::unique_ptr<rpc::WorkerService> service_;
  std::unique_ptr<rpc::Server> server_;
};

// Layers 1..3 in the middle of the pipeline, unless told otherwise.
inline v1::LoadStageRequest LoadRequest(uint64_t epoch, StageUnits units = {1, 3, false, false}) {
  v1::LoadStageRequest request;
  request.set_epoch(epoch);
  request.set_model_identity(kIdentity);
  v1::Expected* expected = request.mutable_expected();
  rpc::ToProto(units, expected->mutable_units());
  StageOptions options;
  options.n_ctx = 512;
  options.kv_pages = 64;
  options.max_sequences = 8;
  options.max_rows = 64;
  rpc::ToProto(options, expected->mutable_options());
  PurposeBytes bytes;
  bytes[Purpose::kWeights] = kWeights;
  rpc::ToProto(bytes, expected->mutable_memory());
  expected->set_device("host");
  return request;
}

inline v1::Open OpenOf(uint64_t sequence) {
  v1::Open open;
  open.set_sequence(sequence);
  rpc::ToProto(SamplingParams(), open.mutable_sampling());
  return open;
}

// One segment of tokens 1, 2, …, with activations of n_embd values each equal to the row's index.
inline void AddSegment(v1::Forward* forward, uint64_t sequence, uint32_t begin, uint32_t count, uint64_t hash,
                       uint32_t n_embd) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(1 + (begin + i) % 50));
  Segment segment;
  segment.sequence = sequence;
  segment.begin = begin;
  segment.outputs = Outputs::kLast;
  segment.prefix_hash = hash;
  segment.tokens = tokens;
  rpc::ToProto(segment, forward->add_segments());
  if (n_embd == 0) return;
  std::vector<float> rows;
  for (uint32_t row = 0; row < count; ++row) rows.insert(rows.end(), n_embd, static_cast<float>(row));
  forward->set_activation_type(v1::ACTIVATION_TYPE_F32);
  rpc::EncodeActivations(rows, v1::ACTIVATION_TYPE_F32, forward->mutable_activations());
}

inline v1::Forward ForwardOf(uint64_t step, uint64_t sequence, uint32_t begin, uint32_t count, uint64_t hash,
                             uint32_t n_embd) {
  v1::Forward forward;
  forward.set_step(step);
  forward.set_last(true);
  AddSegment(&forward, sequence, begin, count, hash, n_embd);
  return forward;
}

}  // namespace spillway::test
