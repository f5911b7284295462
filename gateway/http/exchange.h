// The seam between the HTTP machinery (connections, deadlines, framing) and what answers requests: plain
// requests and responses, one exchange per request, and the call that stays with an exchange until it is
// answered. Knows nothing of sockets, OpenAI or tokens.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::gateway {

struct HttpRequest {
  std::string method;
  std::string path;  // percent-decoded, without the query
  std::string body;
  std::string request_id;  // the client's x-request-id when it is harmless, else generated
  std::chrono::steady_clock::time_point arrival;  // its first byte was seen
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// Runs a task later on the executor of one exchange. Thread-safe; may be called after the exchange's end, but
// not after the server's.
using Poster = std::function<void(std::function<void()>)>;

// One request waiting for its answer. Confined to its executor: every method is called there, and none of
// them calls back into the Call before it returns. Respond once, or StartStream, Write… and EndStream.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Poster poster() = 0;
  virtual void Respond(HttpResponse response) = 0;
  virtual void StartStream(HttpResponse head) = 0;  // the body of `head` is ignored
  virtual void Write(std::string_view bytes) = 0;
  virtual void EndStream(bool close_connection) = 0;
};

// Work in progress for one exchange; owned by the connection and confined to its executor. Destroyed after
// Completed, or before it when the client has gone, is too slow, or the server stops: then the work must be
// cancelled.
class Call {
 public:
  virtual ~Call() = default;
  virtual void Flushed() {}    // all bytes written so far are in the socket
  virtual void Completed() {}  // so is the end of the response
  // Bytes that mean nothing to the reader of a stream under way; written to learn whether it is still there.
  // "" = there are none: a client that ends its side of the connection is taken to have left.
  virtual std::string_view Filler() const { return ""; }
};

// Answers requests. Called on any I/O thread; must be thread-safe and must not block.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Answers through `exchange`, at once (returns nullptr) or later from the returned call.
  virtual std::unique_ptr<Call> Handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) = 0;
  // The answer to bytes that never became a request: 400, 403, 408, 413, 415, 431, 501, or 503 at the
  // connection limit.
  virtual HttpResponse Refusal(int status, const std::string& message) = 0;
  // From now on new work is refused; what runs may finish.
  virtual void BeginDrain() = 0;
};

}  // namespace spillway::gateway
