// The live connections of a server: counted, reachable for draining, awaited at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace spillway::gateway {

class Connection;

// Thread-safe. Holds no connection alive.
class ConnectionSet {
 public:
  void Add(const std::shared_ptr<Connection>& connection) {
    const std::lock_guard<std::mutex> lock(mutex_);
    connections_.emplace(connection.get(), connection);
  }
  void Remove(const Connection* connection) {
    const std::lock_guard<std::mutex> lock(mutex_);
    connections_.erase(connection);
    if (connections_.empty()) empty_.notify_all();
  }
  size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return connections_.size();
  }
  std::vector<std::shared_ptr<Connection>> Snapshot() const {
    std::vector<std::shared_ptr<Connection>> live;
    const std::lock_guard<std::mutex> lock(mutex_);
    live.reserve(connections_.size());
    for (const auto& [key, weak] : connections_) {
      if (auto connection = weak.lock()) live.push_back(std::move(connection));
    }
    return live;
  }
  bool WaitUntilEmpty(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    return empty_.wait_until(lock, deadline, [this] { return connections_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> connections_;
};

}  // namespace spillway::gateway
