// A blunt HTTP client for tests: sends the bytes it is given and reads until the server closes.
#pragma once

#include <boost/asio.hpp>
#include <string>

namespace spillway::test {

inline std::string Exchange(uint16_t port, const std::string& bytes) {
  namespace asio = boost::asio;
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  socket.connect({asio::ip::address_v4::loopback(), port});
  boost::system::error_code error;
  asio::write(socket, asio::buffer(bytes), error);
  std::string answer;
  asio::read(socket, asio::dynamic_buffer(answer), error);
  return answer;
}

inline std::string Get(uint16_t port, const std::string& path) {
  return Exchange(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

inline std::string BodyOf(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace spillway::test
