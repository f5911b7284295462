// Keeps one worker in service: connects, checks that it is what the plan expects, has it load its stage,
// opens the stream, and starts over whenever it is lost. Knows nothing of sequences.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "gateway/pipeline/stage_link.h"
#include "rpc/stage_client.h"

namespace spillway::gateway {

// What the plan says of one stage and where its worker is.
struct StageSetup {
  std::string name;    // "gpu-worker", "cpu-worker-0"
  std::string target;  // host:port
  bool gpu = false;
  std::string identity;  // of the model
  rpc::DataPlane data_plane = rpc::DataPlane::kAuto;
  v1::Expected expected;
};

// kDegraded: the worker has no memory for its stage. It stays so between the tries to load it.
enum class StageCondition : uint8_t {
  kConnecting,
  kLoading,
  kReady,
  kDraining,
  kDegraded,
  kUnreachable,
  kIncompatible
};
std::string_view ConditionName(StageCondition condition);

struct StageView {
  StageCondition condition = StageCondition::kConnecting;
  std::string detail;             // why, when not ready
  v1::DescribeReply description;  // the newest; empty before the first
  double described_unix_seconds = 0;
  bool local = false;  // frames pass the local plane
};

// Thread-safe. Its thread runs from Start to Stop.
class StageSupervisor final : public StageLink {
 public:
  // `on_change` is called on its thread after the view changed; may be empty.
  StageSupervisor(StageSetup setup, uint32_t index, uint64_t epoch);
  ~StageSupervisor() override;  // Stop

  void Start(StageEventSink& sink, std::function<void()> on_change);
  void Stop();
  const StageSetup& setup() const { return setup_; }
  StageView View() const;

  void Accept(uint64_t connection) override;
  void SendOpen(v1::Open open) override;
  void SendForward(v1::Forward forward) override;
  void SendFork(v1::Fork fork) override;
  void SendClose(uint64_t sequence) override;
  void SendCancel(uint64_t sequence) override;
  void Reset(absl::Status why) override;

 private:
  using Clock = std::chrono::steady_clock;
  void Run();
  absl::Status BringUp();
  absl::Status Check(const v1::DescribeReply& description) const;
  absl::Status Load();
  void Describe();
  absl::Status Connect();
  absl::Status Serve();  // until the connection is lost; returns why
  void SetView(StageCondition condition, const std::string& detail);
  void SetDescription(v1::DescribeReply description);
  void PostDown(const absl::Status& why);
  void Lose(uint64_t connection, absl::Status why);
  bool Wait(std::chrono::milliseconds duration);  // false when stopping
  bool Sending() const { return connected_.load() && accepted_.load() == connection_.load(); }

  const StageSetup setup_;
  const uint32_t index_;
  const uint64_t epoch_;
  rpc::StageClient client_;
  StageEventSink* sink_ = nullptr;
  std::function<void()> on_change_;

  std::atomic<bool> connected_ = false;
  std::atomic<uint64_t> connection_ = 0;
  std::atomic<uint64_t> accepted_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t attempt_ = 0;  // number of the connection that is being made or stands
  absl::Status lost_;     // of the present connection; ok while it stands
  StageView view_;
  std::thread thread_;
};

}  // namespace spillway::gateway
