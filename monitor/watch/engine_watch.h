// Watches engines that are not ours from their public endpoints: each on a thread of its own, so that a dead
// or slow one delays nobody. Facts only; truth/ judges them.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/files.h"
#include "truth/engine.h"

namespace spillway::monitor {

enum class EngineKind : uint8_t { kOllama, kLlamaServer };

struct EngineTarget {
  EngineKind kind = EngineKind::kOllama;
  std::string name;     // "ollama@127.0.0.1:11434"; a label value
  std::string address;  // host:port
};

// "ollama=http://127.0.0.1:11434", "llama-server=http://host:8080"; InvalidArgument names what is wrong.
absl::StatusOr<EngineTarget> ParseEngine(const std::string& text);

// What one engine says now; `this_host` and the driver's part are not filled in. Blocks up to `timeout` for
// each of its endpoints.
truth::EngineFacts AskEngine(const EngineTarget& target, std::chrono::milliseconds timeout);

// Thread-safe. Asks until it is destroyed.
class EngineWatch {
 public:
  EngineWatch(std::vector<EngineTarget> targets, std::chrono::milliseconds interval, double expected_share,
              const device::Root& root);
  ~EngineWatch();

  const std::vector<EngineTarget>& targets() const { return targets_; }
  // The newest of every target, in order; unset before the first answer or its absence.
  std::vector<std::optional<truth::EngineFacts>> Facts() const;

 private:
  void Run(size_t index);

  const std::vector<EngineTarget> targets_;
  const std::chrono::milliseconds interval_;
  const double expected_share_;
  const device::Root root_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<std::optional<truth::EngineFacts>> facts_;
  std::vector<std::thread> threads_;
};

}  // namespace spillway::monitor
