// The HTTP listener: accepts connections, bounds them, and drains them at the end. Two I/O threads serve any
// number of connections, so idle and slow ones cost a socket and little else. Knows no paths and no OpenAI.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gateway/http/access_policy.h"
#include "gateway/http/exchange.h"

namespace spillway::gateway {

struct HttpLimits {
  size_t max_connections = 4096;                   // further ones get 503; fewer where descriptors are
  size_t header_bytes = 16 * 1024;                 // more is answered 431
  size_t body_bytes = 4 * 1024 * 1024;             // more is answered 413
  size_t stream_backlog_bytes = 1024 * 1024;       // unsent bytes of a stream at which its client is too slow
  int send_buffer_bytes = 256 * 1024;              // kernel memory per connection; 0 = the system's choice
  std::chrono::milliseconds idle_timeout{75'000};  // between requests
  std::chrono::milliseconds header_timeout{30'000};  // first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60'000};    // end of the header to the end of the body
  std::chrono::milliseconds write_timeout{30'000};   // for each 64 KiB
  std::chrono::milliseconds drain_timeout{30'000};   // what runs at Stop may take so long
};

struct HttpOptions {
  std::string address = "127.0.0.1:8080";  // "host:port", "[::1]:port", "localhost:port"; port 0 = any
  bool insecure = false;                   // allow an address that others can reach, without TLS
  AccessOptions access;                    // for web browsers
  int threads = 2;
  HttpLimits limits;
};

// Owns its threads, the listener and the connections; borrows the handler, which outlives it. Start, port and
// Stop are for one owner thread.
class HttpServer {
 public:
  // InvalidArgument: no address, or not loopback without `insecure`. Unavailable: the address is in use
  // (named). Raises the process's limit of open descriptors to what the connections need, where it may.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           RequestHandler& handler);
  ~HttpServer();  // Stop()

  uint16_t port() const;
  size_t connections() const;

  // Stops accepting, closes idle connections, lets running requests finish until the drain timeout, cuts the
  // rest (their calls are destroyed, which cancels them) and joins the threads. Idempotent.
  void Stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::gateway
