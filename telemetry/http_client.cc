// Boost.Beast, synchronous in form: its tcp_stream runs one asynchronous step at a time so that deadlines
// hold.
#include "telemetry/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <optional>

#include "engine/base/status.h"

namespace spillway::telemetry {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using std::chrono::milliseconds;

constexpr size_t kBlock = 16 * 1024;

// One connection with a deadline for each step, or for all of them together.
class Connection {
 public:
  enum class Limit : uint8_t { kStep, kWhole };
  Connection(Limit limit, milliseconds timeout)
      : limit_(limit), timeout_(timeout), end_(std::chrono::steady_clock::now() + timeout) {}

  absl::Status Connect(const std::string& address) {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) return InvalidArgument("{} is no address", address);
    const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
    // Numbers need no resolver, which would start a thread.
    boost::system::error_code error;
    const auto ip = boost::asio::ip::make_address(host, error);
    if (!error) {
      const boost::asio::ip::tcp::endpoint endpoint(ip, static_cast<uint16_t>(std::atoi(port.c_str())));
      return Step("connect to " + address, [&](auto done) { stream_.async_connect(endpoint, done); });
    }
    const auto endpoints = boost::asio::ip::tcp::resolver(context_).resolve(host, port, error);
    if (error) return Unavailable("{}: {}", host, error.message());
    return Step("connect to " + address, [&](auto done) {
      stream_.async_connect(endpoints, [done](beast::error_code result, const auto&) { done(result); });
    });
  }

  absl::Status Send(const http::request<http::string_body>& request) {
    return Step("send", [&](auto done) {
      http::async_write(stream_, request, [done](beast::error_code error, size_t) { done(error); });
    });
  }

  template <typename Parser>
  absl::Status ReadHeader(Parser& parser) {
    return Step("answer", [&](auto done) {
      http::async_read_header(stream_, buffer_, parser,
                              [done](beast::error_code error, size_t) { done(error); });
    });
  }

  // Until the body's block is full or the message ends.
  template <typename Parser>
  absl::Status ReadSome(Parser& parser) {
    return Step("answer", [&](auto done) {
      http::async_read_some(stream_, buffer_, parser, [done](beast::error_code error, size_t) {
        done(error == http::error::need_buffer ? beast::error_code() : error);
      });
    });
  }

 private:
  template <typename Begin>
  absl::Status Step(const std::string& what, Begin begin) {
    std::optional<beast::error_code> result;
    if (limit_ == Limit::kStep) {
      stream_.expires_after(timeout_);
    } else {
      stream_.expires_at(end_);
    }
    begin([&result](beast::error_code error) { result = error; });
    context_.restart();
    context_.run();
    if (!result.has_value()) return Internal("{}: no result", what);
    if (*result == http::error::body_limit) return ResourceExhausted("{}: the body is too long", what);
    if (*result == beast::error::timeout) return Unavailable("{}: nothing for {} ms", what, timeout_.count());
    if (*result) return Unavailable("{}: {}", what, result->message());
    return absl::OkStatus();
  }

  const Limit limit_;
  const milliseconds timeout_;
  const std::chrono::steady_clock::time_point end_;
  boost::asio::io_context context_;
  beast::tcp_stream stream_{context_};
  beast::flat_buffer buffer_;
};

http::request<http::string_body> MakeRequest(http::verb verb, const std::string& address,
                                             const std::string& path) {
  http::request<http::string_body> request(verb, path, 11);
  request.set(http::field::host, address);
  request.set(http::field::user_agent, "spillway");
  request.set(http::field::connection, "close");
  return request;
}

// Cuts a byte stream into the data of events: "data: TEXT" lines ended by a blank line; comments are skipped.
class EventCutter {
 public:
  // False when `on_event` wants no more.
  bool Add(std::string_view bytes, const std::function<bool(std::string_view)>& on_event) {
    for (const char c : bytes) {
      if (c == '\r') continue;
      if (c != '\n') {
        line_ += c;
        continue;
      }
      const std::string line = std::move(line_);
      line_.clear();
      if (line.empty()) {
        if (has_data_ && !on_event(data_)) return false;
        data_.clear();
        has_data_ = false;
      } else if (line.rfind("data:", 0) == 0) {
        const size_t begin = line.size() > 5 && line[5] == ' ' ? 6 : 5;
        if (has_data_) data_ += '\n';
        data_ += line.substr(begin);
        has_data_ = true;
      }
    }
    return true;
  }

 private:
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace

namespace {

absl::StatusOr<HttpAnswer> Ask(const std::string& address, const http::request<http::string_body>& request,
                               milliseconds timeout, uint64_t max_body) {
  Connection connection(Connection::Limit::kWhole, timeout);
  SPILLWAY_RETURN_IF_ERROR(connection.Connect(address));
  SPILLWAY_RETURN_IF_ERROR(connection.Send(request));
  http::response_parser<http::string_body> parser;
  parser.body_limit(max_body);
  while (!parser.is_done()) SPILLWAY_RETURN_IF_ERROR(connection.ReadSome(parser));
  return HttpAnswer{static_cast<int>(parser.get().result_int()), parser.get().body()};
}

}  // namespace

absl::StatusOr<HttpAnswer> HttpGet(const std::string& address, const std::string& path, milliseconds timeout,
                                   uint64_t max_body) {
  return Ask(address, MakeRequest(http::verb::get, address, path), timeout, max_body);
}

absl::StatusOr<HttpAnswer> HttpPost(const std::string& address, const std::string& path,
                                    const std::string& json, milliseconds timeout, uint64_t max_body) {
  auto request = MakeRequest(http::verb::post, address, path);
  request.set(http::field::content_type, "application/json");
  request.body() = json;
  request.prepare_payload();
  return Ask(address, request, timeout, max_body);
}

absl::StatusOr<HttpAnswer> HttpPostEvents(const std::string& address, const std::string& path,
                                          const std::string& body, milliseconds idle,
                                          const std::function<bool(std::string_view)>& on_event) {
  Connection connection(Connection::Limit::kStep, idle);
  SPILLWAY_RETURN_IF_ERROR(connection.Connect(address));
  auto request = MakeRequest(http::verb::post, address, path);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::accept, "text/event-stream");
  request.body() = body;
  request.prepare_payload();
  SPILLWAY_RETURN_IF_ERROR(connection.Send(request));
  http::response_parser<http::buffer_body> parser;
  // Not `none`: this Beast takes it for 0 where the answer has a length.
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  SPILLWAY_RETURN_IF_ERROR(connection.ReadHeader(parser));
  HttpAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  const std::string type(parser.get()[http::field::content_type]);
  const bool events = answer.status == 200 && type.rfind("text/event-stream", 0) == 0;
  EventCutter cutter;
  std::string block(kBlock, '\0');
  while (!parser.is_done()) {
    parser.get().body().data = block.data();
    parser.get().body().size = block.size();
    SPILLWAY_RETURN_IF_ERROR(connection.ReadSome(parser));
    const std::string_view got(block.data(), block.size() - parser.get().body().size);
    if (!events) {
      if (answer.body.size() + got.size() > kMaxHttpBody) return ResourceExhausted("the answer is too long");
      answer.body += got;
    } else if (!cutter.Add(got, on_event)) {
      break;
    }
  }
  return answer;
}

}  // namespace spillway::telemetry
