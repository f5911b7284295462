// Measures what a hop costs beyond its compute: a StageClient and a WorkerService with a stage that only
// copies, over loopback in one process (--connect and --serve: in two). Prints one JSON line.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/base/status.h"
#include "rpc/convert.h"
#include "rpc/server.h"
#include "rpc/stage_client.h"
#include "rpc/worker_service.h"
#include "telemetry/registry.h"

namespace spillway::rpc {
namespace {

class CopyStage final : public Stage {
 public:
  CopyStage(const StageUnits& units, const StageOptions& options) : units_(units), options_(options) {}
  const StageUnits& units() const override { return units_; }
  const StageOptions& options() const override { return options_; }
  PurposeBytes Allocated() const override { return {}; }
  absl::Status Open(SequenceId, const SequenceOptions&) override { return absl::OkStatus(); }
  absl::Status Fork(SequenceId, SequenceId, uint32_t) override { return absl::OkStatus(); }
  void Close(SequenceId) override {}
  void CloseAll() override {}
  uint32_t FreePages() const override { return 1; }
  absl::Status Forward(const MicroBatch& batch, ForwardOutput* output) override {
    results_.assign(batch.segments.size(), SegmentResult());
    output->segments = results_;
    output->activations = batch.activations;
    for (const Segment& segment : batch.segments) output->layer_steps += segment.count() * units_.Layers();
    return absl::OkStatus();
  }

 private:
  const StageUnits units_;
  const StageOptions options_;
  std::vector<SegmentResult> results_;
};

struct Flags {
  uint32_t n_embd = 768;  // 3 KiB a row
  uint32_t rows = 1;
  int rounds = 5000;
  int pause_us = 0;
  std::string connect;
  std::string serve;
};

absl::Status Check(const absl::Status& status) {
  if (!status.ok()) fmt::print(stderr, "hop_bench: {}\n", MessageOf(status));
  return status;
}

int Measure(const Flags& flags, const std::string& address) {
  v1::LoadStageRequest request;
  request.set_epoch(1);
  request.set_model_identity("bench");
  ToProto(StageUnits{0, 1, false, false}, request.mutable_expected()->mutable_units());
  StageOptions options;
  options.max_rows = flags.rows;
  ToProto(options, request.mutable_expected()->mutable_options());
  request.mutable_expected()->set_device("host");
  const std::chrono::milliseconds deadline(10000);
  StageClient client("bench", address);
  if (!Check(client.LoadStage(request, deadline)).ok()) return 1;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<double> seconds, inside;
  bool lost = false;
  StageEvents events;
  events.on_reply = [&](HopReply hop) {
    const std::lock_guard lock(mutex);
    seconds.push_back(hop.round_trip_seconds);
    const v1::HopTimings& t = hop.reply.timings();
    inside.push_back(1e-9 * static_cast<double>(t.queue_ns() + t.compute_ns() + t.serialize_ns()));
    changed.notify_one();
  };
  events.on_lost = [&](absl::Status) {
    const std::lock_guard lock(mutex);
    lost = true;
    changed.notify_one();
  };
  if (!Check(client.Connect(1, std::move(events), deadline)).ok()) return 1;
  const std::vector<int32_t> tokens(flags.rows, 1);
  const std::vector<float> rows(size_t{flags.rows} * flags.n_embd, 1.0f);
  v1::Forward forward;
  Segment segment;
  segment.tokens = tokens;
  ToProto(segment, forward.add_segments());
  forward.set_activation_type(v1::ACTIVATION_TYPE_F32);
  EncodeActivations(rows, v1::ACTIVATION_TYPE_F32, forward.mutable_activations());
  for (int i = 0; i < flags.rounds; ++i) {
    forward.set_step(static_cast<uint64_t>(i));
    client.SendForward(forward);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return lost || seconds.size() == static_cast<size_t>(i) + 1; });
    if (lost) return 1;
    lock.unlock();
    // A stage waits for milliseconds while others compute: its threads really sleep.
    const auto resume = std::chrono::steady_clock::now() + std::chrono::microseconds(flags.pause_us);
    while (std::chrono::steady_clock::now() < resume) {
    }
  }
  std::sort(seconds.begin(), seconds.end());
  std::sort(inside.begin(), inside.end());
  const auto at = [&](const std::vector<double>& values, double q) {
    return 1e6 * values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
  };
  fmt::print(
      "{{\"payload_bytes\":{},\"rounds\":{},\"round_trip_us\":{{\"p50\":{:.1f},\"p90\":{:.1f},\"p99\":{:.1f}}"
      "},"
      "\"in_worker_us\":{{\"p50\":{:.1f},\"p99\":{:.1f}}}}}\n",
      rows.size() * sizeof(float), flags.rounds, at(seconds, 0.5), at(seconds, 0.9), at(seconds, 0.99),
      at(inside, 0.5), at(inside, 0.99));
  return 0;
}

int Run(const Flags& flags) {
  if (!flags.connect.empty()) return Measure(flags, flags.connect);
  Model model;
  model.config.n_layer = 1;
  model.config.n_embd = flags.n_embd;
  model.config.n_vocab = 100;
  Ledger ledger;
  telemetry::Registry registry("cpu-worker");
  telemetry::WorkerMetrics metrics(registry, "cpu", "host");
  WorkerConfig config;
  config.role = "cpu";
  config.device = "host";
  config.identity = "bench";
  WorkerService service(
      config, model, ledger,
      [](const StageUnits& units, const StageOptions& options, Ledger&, std::function<void(uint64_t)>)
          -> absl::StatusOr<std::unique_ptr<Stage>> { return std::make_unique<CopyStage>(units, options); },
      metrics);
  ServerOptions options;
  options.name = "worker";
  options.address = flags.serve.empty() ? "127.0.0.1:0" : flags.serve;
  options.services = {service.service()};
  auto server = Server::Start(options);
  if (!Check(server.status()).ok()) return 1;
  if (!flags.serve.empty()) std::promise<void>().get_future().wait();  // until killed
  const int code = Measure(flags, (*server)->address());
  service.ShutDown(std::chrono::milliseconds(0));
  (*server)->Shutdown(std::chrono::milliseconds(100));
  server->reset();
  return code;
}

}  // namespace
}  // namespace spillway::rpc

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  spillway::rpc::Flags flags;
  CLI::App app("Round trip of a hop over loopback");
  app.add_option("--embd", flags.n_embd, "Values of a row");
  app.add_option("--rows", flags.rows, "Rows of the micro-batch");
  app.add_option("--rounds", flags.rounds, "Round trips")->check(CLI::Range(1, 10000000));
  app.add_option("--pause-us", flags.pause_us, "Computing between round trips");
  app.add_option("--serve", flags.serve, "Only the worker, on this address, until killed");
  app.add_option("--connect", flags.connect, "Only the client, to a --serve of the same sizes");
  CLI11_PARSE(app, argc, argv);
  return spillway::rpc::Run(flags);
}
