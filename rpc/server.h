// How every Spillway service listens: loopback unless asked otherwise, an error that names an address in use,
// health by grpc.health.v1, keepalive, a bounded number of threads, shutdown with a deadline. Knows none of
// the services.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway::rpc {

inline constexpr int kMaxMessageBytes = 4 << 20;

// Keeps gRPC's own lines off stderr unless GRPC_VERBOSITY asks for them: what matters comes back as a status.
// Call it before the first thread starts.
void SilenceLibraryLog();

struct ServerOptions {
  std::string name;                      // of the listener, as --insecure=NAME knows it
  std::string address;                   // "127.0.0.1:50100"; port 0 = any
  bool insecure = false;                 // --insecure=NAME was given: may bind beyond loopback
  std::vector<grpc::Service*> services;  // outlive the server
  int max_threads = 2;                   // that wait for calls; a blocking call gets one more while it lasts
  std::chrono::milliseconds min_ping_interval{5000};  // pings more often than that end the connection
};

// Thread-safe.
class Server {
 public:
  // InvalidArgument: the address is not host:port. FailedPrecondition: not loopback and not insecure.
  // Unavailable: the address cannot be bound, with the system's reason. Health starts as "" and "liveness"
  // serving, "readiness" not.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();  // Shutdown(0)

  const std::string& address() const { return address_; }  // with the chosen port
  uint16_t port() const { return port_; }
  // Services "readiness" and "" follow it; "liveness" stays.
  void SetReady(bool ready);
  // Idempotent. Refuses new calls, gives running ones until the deadline, then cancels them.
  void Shutdown(std::chrono::milliseconds deadline);

 private:
  Server() = default;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  uint16_t port_ = 0;
};

// "host:port", "[::1]:port" → host without brackets and port. InvalidArgument otherwise.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);
bool IsLoopback(const std::string& host);  // 127/8, ::1, localhost

}  // namespace spillway::rpc
