#include "tests/gateway/http/raw_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace spillway::gateway::test {

RawClient::RawClient(uint16_t port, int receive_buffer_bytes) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  const timeval timeout{20, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) Close();
}

RawClient::~RawClient() { Close(); }

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

void RawClient::Close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void RawClient::ShutdownWrite() { ::shutdown(fd_, SHUT_WR); }

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::Fill() {
  char chunk[16384];
  const ssize_t n = ::recv(fd_, chunk, sizeof(chunk), 0);
  if (n <= 0) return false;
  received_.append(chunk, static_cast<size_t>(n));
  return true;
}

std::string RawClient::Take(size_t bytes) {
  while (received_.size() < bytes && Fill()) {
  }
  std::string taken = received_.substr(0, bytes);
  received_.erase(0, taken.size());
  return taken;
}

std::string RawClient::ReadUntil(std::string_view end) {
  size_t at = 0;
  while ((at = received_.find(end)) == std::string::npos) {
    if (!Fill()) return std::exchange(received_, "");
  }
  return Take(at + end.size());
}

bool RawClient::AtEnd() {
  while (Fill()) {
  }
  return received_.empty();
}

bool RawClient::ReadableWithin(int milliseconds) {
  pollfd entry{fd_, POLLIN, 0};
  return !received_.empty() || ::poll(&entry, 1, milliseconds) > 0;
}

RawResponse RawClient::ReadResponse(bool has_body) {
  RawResponse response;
  const std::string head = ReadUntil("\r\n\r\n");
  if (head.size() < 12 || head.compare(0, 5, "HTTP/") != 0) return response;
  response.status = std::atoi(head.c_str() + 9);
  if (response.status / 100 == 1) return ReadResponse(has_body);
  for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at);
    const size_t colon = head.find(": ", at);
    std::string name = head.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  if (!has_body) return response;
  if (response.headers.contains("transfer-encoding")) {
    for (;;) {
      const size_t size = std::strtoul(ReadUntil("\r\n").c_str(), nullptr, 16);
      const std::string chunk = Take(size + 2);
      if (size == 0 || chunk.size() < size + 2) return response;
      response.body += chunk.substr(0, size);
    }
  }
  const auto length = response.headers.find("content-length");
  if (length != response.headers.end()) {
    response.body = Take(std::strtoul(length->second.c_str(), nullptr, 10));
    return response;
  }
  while (Fill()) {
  }
  response.body = std::exchange(received_, "");
  return response;
}

RawResponse RawClient::Get(const std::string& path) {
  Send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path));
  return ReadResponse();
}

RawResponse RawClient::Post(const std::string& path, const std::string& body) {
  Send(PostBytes(path, body));
  return ReadResponse();
}

std::string PostBytes(const std::string& path, const std::string& body, const std::string& headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", path, headers,
                     body.size(), body);
}

}  // namespace spillway::gateway::test
