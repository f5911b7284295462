// Threads and what the machine adds to an engine's own words.
#include "monitor/watch/engine_watch.h"

#include <array>
#include <cstdlib>

#include "device/nvidia.h"
#include "engine/base/status.h"
#include "rpc/server.h"

namespace spillway::monitor {
namespace {

constexpr std::chrono::milliseconds kTimeout{2000};

struct KindName {
  EngineKind kind;
  std::string_view name;
};
constexpr std::array<KindName, 2> kKinds = {
    {{EngineKind::kOllama, "ollama"}, {EngineKind::kLlamaServer, "llama-server"}}};

}  // namespace

absl::StatusOr<EngineTarget> ParseEngine(const std::string& text) {
  const size_t equals = text.find('=');
  EngineTarget target;
  const std::string kind = text.substr(0, equals);
  bool known = false;
  for (const KindName& row : kKinds) {
    if (row.name != kind) continue;
    target.kind = row.kind;
    known = true;
  }
  if (!known || equals == std::string::npos) {
    return InvalidArgument("--watch \"{}\" is not ollama=URL or llama-server=URL", text);
  }
  std::string url = text.substr(equals + 1);
  constexpr std::string_view kScheme = "http://";
  if (url.rfind(kScheme, 0) == 0) {
    url = url.substr(kScheme.size());
  } else if (url.find("://") != std::string::npos) {
    return InvalidArgument("--watch \"{}\": only http:// is supported", text);
  }
  while (!url.empty() && url.back() == '/') url.pop_back();
  const auto address = rpc::ParseHostPort(url);
  if (!address.ok() || address->port == 0) {
    return InvalidArgument("--watch \"{}\": {} is not HOST:PORT", text, url);
  }
  target.address = url;
  target.name = kind + "@" + url;
  return target;
}

EngineWatch::EngineWatch(std::vector<EngineTarget> targets, std::chrono::milliseconds interval,
                         double expected_share, const device::Root& root)
    : targets_(std::move(targets)),
      interval_(interval),
      expected_share_(expected_share),
      root_(root),
      facts_(targets_.size()) {
  for (size_t i = 0; i < targets_.size(); ++i) threads_.emplace_back([this, i] { Run(i); });
}

EngineWatch::~EngineWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<std::optional<truth::EngineFacts>> EngineWatch::Facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void EngineWatch::Run(size_t index) {
  const EngineTarget& target = targets_[index];
  const auto address = rpc::ParseHostPort(target.address);
  const bool this_host = address.ok() && rpc::IsLoopback(address->host);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    truth::EngineFacts facts = AskEngine(target, kTimeout);
    facts.expected_share = expected_share_;
    facts.this_host = this_host;
    if (this_host) {
      const device::NvidiaFacts nvidia = device::ReadNvidia(root_);
      facts.nvidia_present = nvidia.present();
      facts.driver_loaded = nvidia.driver_loaded;
    }
    lock.lock();
    facts_[index] = std::move(facts);
    changed_.wait_for(lock, interval_, [this] { return stopping_; });
  }
}

}  // namespace spillway::monitor
