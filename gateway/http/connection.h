// One client's connection: reads a request under deadlines and limits, hands it to the handler, writes the
// answer under deadlines and limits, and notices when the client goes away meanwhile. Then the next request.
// Knows no paths.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/connection_set.h"
#include "gateway/http/exchange.h"
#include "gateway/http/server.h"

namespace spillway::gateway {

// A deadline that is armed and disarmed many times. Confined to the connection's executor.
class Deadline {
 public:
  explicit Deadline(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  // Calls `on_expiry` unless disarmed or armed again before; keeps what it captures alive until then.
  template <typename F>
  void Arm(std::chrono::milliseconds after, F on_expiry) {
    timer_.expires_after(after);
    timer_.async_wait(
        [this, number = ++number_, on_expiry = std::move(on_expiry)](boost::system::error_code error) {
          if (!error && number == number_) on_expiry();
        });
  }
  void Disarm() {
    ++number_;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  uint64_t number_ = 0;  // an expiry already queued when Disarm comes must not fire
};

// Keeps itself alive while an operation is pending on its socket. Confined to the socket's strand, but for
// Drain and Cut.
class Connection : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  // Borrows all but the socket; they outlive it.
  Connection(boost::asio::ip::tcp::socket socket, RequestHandler& handler, const HttpLimits& limits,
             ConnectionSet& set);
  ~Connection() override;

  void Start();
  void Drain();  // thread-safe: close when idle, else after the answer
  void Cut();    // thread-safe: close now
  void Close();  // on the executor, or when no thread runs it any more

  // Exchange
  boost::asio::any_io_executor executor() override { return executor_; }
  void Respond(HttpResponse response) override;
  void StartStream(HttpResponse head) override;
  void Write(std::string_view bytes) override;
  void EndStream(bool close_connection) override;

 private:
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State : uint8_t { kIdle, kReading, kAnswering, kLingering, kClosed };

  void WaitForRequest();
  void ReadHeader();
  void OnHeader(Error error);
  void ReadBody();
  void OnRequest(Error error);
  void OnReadDeadline();
  void OnReadFailure(Error error);
  void Refuse(int status, const std::string& message);
  HttpRequest TakeRequest();

  void Watch();
  void OnReadable(Error error);
  void ReceiveAhead();
  void Discard();

  void AppendHead(const HttpResponse& response, std::string_view framing);
  void Flush();
  void WriteSome();
  void OnWritten(Error error, size_t bytes);
  void EndAnswer();
  void Linger();

  boost::asio::ip::tcp::socket socket_;
  const boost::asio::any_io_executor executor_;
  RequestHandler& handler_;
  const HttpLimits& limits_;
  ConnectionSet& set_;

  State state_ = State::kIdle;
  Deadline read_deadline_;
  Deadline write_deadline_;
  boost::beast::flat_buffer buffer_;  // bytes received and not yet parsed
  std::optional<Parser> parser_;      // while a request is read
  std::chrono::steady_clock::time_point arrival_;
  std::string request_id_;
  bool timed_out_ = false;  // the read deadline ended the reading

  std::unique_ptr<Call> call_;
  bool watching_ = false;  // a wait for readability is pending
  bool keep_alive_ = true;
  bool draining_ = false;
  bool head_only_ = false;  // HEAD
  bool http_1_0_ = false;
  bool chunked_ = false;

  std::string output_;   // to be written
  std::string writing_;  // being written
  size_t written_ = 0;   // of writing_
  bool write_pending_ = false;
  bool streaming_ = false;
  bool too_slow_ = false;  // the backlog was full: the connection is about to be cut
  bool complete_ = false;  // the whole answer is in output_
};

}  // namespace spillway::gateway
