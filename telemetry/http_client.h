// A small HTTP/1.1 client: one request per connection, blocking, with deadlines; and the events of a
// Server-Sent-Events answer as they come. Knows nothing of the bodies.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace spillway::telemetry {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// address "127.0.0.1:8080" or "host:8080". Unavailable when it cannot be reached or not all of the answer
// came in time; ResourceExhausted past `max_body` bytes.
inline constexpr uint64_t kMaxHttpBody = uint64_t{64} << 20;
absl::StatusOr<HttpAnswer> HttpGet(const std::string& address, const std::string& path,
                                   std::chrono::milliseconds timeout, uint64_t max_body = kMaxHttpBody);
absl::StatusOr<HttpAnswer> HttpPost(const std::string& address, const std::string& path,
                                    const std::string& json, std::chrono::milliseconds timeout,
                                    uint64_t max_body = kMaxHttpBody);

// Posts JSON and hands every event's data to `on_event` until the answer ends or `on_event` returns false.
// The answer's body is returned only when it was no event stream (an error). `idle` is the longest silence.
absl::StatusOr<HttpAnswer> HttpPostEvents(const std::string& address, const std::string& path,
                                          const std::string& body, std::chrono::milliseconds idle,
                                          const std::function<bool(std::string_view)>& on_event);

}  // namespace spillway::telemetry
