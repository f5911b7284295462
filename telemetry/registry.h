// Owns a process's metrics and serves them with its health over a small HTTP listener: /metrics, /healthz,
// /readyz and pages that are added. The only folder that knows prometheus-cpp.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace spillway::telemetry {

// Thread-safe.
class Registry {
 public:
  // Adds build_info and the process_* collector. `service`: gateway | gpu-worker | cpu-worker | monitor.
  explicit Registry(const std::string& service);
  ~Registry();
  std::string Render() const;  // Prometheus text format 0.0.4
  prometheus::Registry& prometheus();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct HttpPage {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// GET only, one thread, bounded request size and time per connection, 64 connections at most. Loopback by
// default.
class HealthServer {
 public:
  // address "127.0.0.1:9560"; port 0 = any. Unavailable naming the address when it is in use.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address, Registry& registry);
  ~HealthServer();
  uint16_t port() const;
  // readiness: returns "" when ready, else why not (answered as 503).
  void SetReadiness(std::function<std::string()> readiness);
  void AddPage(const std::string& path, std::function<HttpPage()> page);

 private:
  struct Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// spdlog set up the house way: one structured line per event on stderr (key=value), level from SPILLWAY_LOG.
void SetUpLogging(const std::string& service);

inline constexpr char kVersion[] = "0.1.0";

}  // namespace spillway::telemetry
