// A blocking HTTP client that sends exactly the bytes it is told to. Reads give up after 20 s.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace spillway::gateway::test {

struct RawResponse {
  int status = 0;                              // 0: the connection ended before a response
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;                            // chunked bodies joined
};

class RawClient {
 public:
  // receive_buffer_bytes > 0 makes the kernel hold little for a client that does not read.
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool Send(std::string_view bytes);               // false when the peer has closed
  void ShutdownWrite();                            // sends no more, still reads
  RawResponse ReadResponse(bool has_body = true);  // skips interim (1xx) responses
  std::string ReadUntil(std::string_view end);     // through `end`, or what came before the connection's end
  bool AtEnd();  // waits for the end of the connection; false when bytes come instead
  bool ReadableWithin(int milliseconds);  // bytes or the end have come
  void Close();

  RawResponse Get(const std::string& path);
  RawResponse Post(const std::string& path, const std::string& body);

 private:
  bool Fill();
  std::string Take(size_t bytes);

  int fd_ = -1;
  std::string received_;
};

std::string PostBytes(const std::string& path, const std::string& body, const std::string& headers = "");

}  // namespace spillway::gateway::test
