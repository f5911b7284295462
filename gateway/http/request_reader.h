// Bytes of one HTTP request → its head and its body, within limits, or the status and the reason it is
// refused with. Knows no sockets and no paths. The parser (Boost.Beast) stays behind a pointer: its headers
// are heavy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace spillway::gateway {

// What a request says of itself before its body; header fields that are absent are empty.
struct RequestHead {
  std::string method;
  std::string target;
  std::string host;
  std::string origin;
  std::string request_id;         // x-request-id, as the client wrote it
  std::string preflight_method;   // Access-Control-Request-Method
  std::string preflight_headers;  // Access-Control-Request-Headers
  bool keep_alive = true;
  bool http_1_0 = false;
  bool expects_continue = false;  // and has a body to send
};

// Confined to one thread. For one request.
class RequestReader {
 public:
  struct Limits {
    size_t header_bytes = 0;  // also of one chunk's header and of the trailer
    size_t body_bytes = 0;
  };
  struct Failure {
    int status = 400;
    std::string message;
  };
  enum class Progress : uint8_t {
    kMore,    // needs bytes that have not come yet
    kHead,    // head() is there; told once, before any byte of the body is taken
    kDone,    // so is the body; what follows belongs to the next request
    kFailed,  // failure() says why; where the next request would begin is unknown
  };

  explicit RequestReader(const Limits& limits);
  ~RequestReader();

  // Takes bytes from the front of `bytes`: the first *used of them must not be fed again.
  Progress Feed(std::string_view bytes, size_t* used);

  const RequestHead& head() const { return head_; }  // after kHead
  const Failure& failure() const { return failure_; }
  std::string TakeBody();  // after kDone

 private:
  struct Parser;
  Progress Fail(int status, std::string message);
  Progress ReadHead();

  const Limits limits_;
  const std::unique_ptr<Parser> parser_;
  bool head_told_ = false;
  RequestHead head_;
  Failure failure_;
};

}  // namespace spillway::gateway
