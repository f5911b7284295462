// One client's connection: reads a request under deadlines and limits, hands it to the handler, writes the
// answer under deadlines and limits, and notices when the client goes away meanwhile. Then the next request.
// Knows no paths.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/connection_set.h"
#include "gateway/http/exchange.h"
#include "gateway/http/request_reader.h"
#include "gateway/http/server.h"

namespace spillway::gateway {

// A deadline that is armed and disarmed many times. Confined to the connection's executor.
class Deadline {
 public:
  explicit Deadline(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  // Calls `on_expiry` unless disarmed or armed again before; keeps what it captures alive until then.
  void Arm(std::chrono::milliseconds after, std::function<void()> on_expiry);
  void Disarm();

 private:
  boost::asio::steady_timer timer_;
  uint64_t number_ = 0;  // an expiry already queued when Disarm comes must not fire
};

// Keeps itself alive while an operation is pending on its socket. Confined to the socket's strand, but for
// Drain and Cut.
class Connection : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  // Borrows all but the socket; they outlive it.
  struct Parts {
    RequestHandler& handler;
    const HttpLimits& limits;
    const AccessPolicy& access;
    ConnectionSet& set;
  };
  Connection(boost::asio::ip::tcp::socket socket, const Parts& parts);
  ~Connection() override;

  void Start();
  void StartRefusing(int status, const std::string& message);  // answers this to whatever comes, and ends
  void Drain();  // thread-safe: close when idle, else after the answer
  void Cut();    // thread-safe: close now
  void Close();  // on the executor, or when no thread runs it any more

  // Exchange
  Poster poster() override;
  void Respond(HttpResponse response) override;
  void StartStream(HttpResponse head) override;
  void Write(std::string_view bytes) override;
  void EndStream(bool close_connection) override;

 private:
  using Error = boost::system::error_code;
  enum class State : uint8_t { kIdle, kReading, kAnswering, kLingering, kClosed };

  void SetUpSocket();
  void WaitForRequest();
  void BeginRequest();
  void Parse();
  std::string TakeHead();
  void OnRequest();
  void HandOver();
  void OnReadDeadline();
  void Refuse(int status, const std::string& message);
  void Linger();

  void Watch();
  void WatchForLoss();
  void OnReadable(Error error);
  void OnInputEnd();
  void ProbeClient();

  void AppendHead(const HttpResponse& response, std::string_view framing);
  void AppendContinue();
  void Flush();
  void WriteSome();
  void OnWritten(Error error, size_t bytes);
  void EndAnswer();

  boost::asio::ip::tcp::socket socket_;
  const boost::asio::any_io_executor executor_;
  RequestHandler& handler_;
  const HttpLimits& limits_;
  const AccessPolicy& access_;
  ConnectionSet& set_;

  State state_ = State::kIdle;
  Deadline read_deadline_;  // while an answer is under way: the next probe of a client that may have left
  Deadline write_deadline_;
  std::string input_;  // bytes received and not yet parsed; bounded, reading pauses behind it
  std::optional<RequestReader> reader_;  // while a request is read
  std::chrono::steady_clock::time_point arrival_;
  std::string request_id_;
  std::string cors_headers_;        // of a permitted web page's request
  bool input_ended_ = false;        // the client sends no more
  bool watching_ = false;           // a wait for readability is pending
  bool watching_for_loss_ = false;  // so is a wait for a reset

  std::unique_ptr<Call> call_;
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
