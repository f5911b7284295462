// The reading half and the life of a connection; connection_write.cc holds the writing half.
#include "gateway/http/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <random>
#include <utility>

#include "gateway/http/router.h"

namespace spillway::gateway {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLingerTimeout{2'000};
// After a read deadline the pending read is cancelled; one that slips through has this long.
constexpr std::chrono::milliseconds kReadGrace{1'000};
constexpr size_t kReceiveBytes = 4096;
constexpr size_t kMaxRequestIdBytes = 128;
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool IsHarmlessId(std::string_view id) {
  if (id.empty() || id.size() > kMaxRequestIdBytes) return false;
  for (const char c : id) {
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alphanumeric && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

std::string NewRequestId() {
  thread_local std::mt19937_64 generator{std::random_device{}()};  // an identifier, not a secret
  return fmt::format("req-{:016x}", generator());
}

}  // namespace

Connection::Connection(net::ip::tcp::socket socket, RequestHandler& handler, const HttpLimits& limits,
                       ConnectionSet& set)
    : socket_(std::move(socket)),
      executor_(socket_.get_executor()),
      handler_(handler),
      limits_(limits),
      set_(set),
      read_deadline_(executor_),
      write_deadline_(executor_) {}

Connection::~Connection() { set_.Remove(this); }

void Connection::Start() {
  net::post(executor_, [self = shared_from_this()] {
    error_code ignored;
    self->socket_.set_option(net::ip::tcp::no_delay(true), ignored);
    if (self->limits_.send_buffer_bytes > 0) {
      self->socket_.set_option(net::socket_base::send_buffer_size(self->limits_.send_buffer_bytes), ignored);
    }
    self->socket_.non_blocking(true, ignored);
    self->WaitForRequest();
  });
}

void Connection::Drain() {
  net::post(executor_, [self = shared_from_this()] {
    self->draining_ = true;
    if (self->state_ == State::kIdle || self->state_ == State::kLingering) self->Close();
    if (self->state_ == State::kReading) {
      self->read_deadline_.Arm(kReadGrace, [self] { self->OnReadDeadline(); });
    }
  });
}

void Connection::Cut() {
  net::post(executor_, [self = shared_from_this()] { self->Close(); });
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  read_deadline_.Disarm();
  write_deadline_.Disarm();
  call_.reset();
  error_code ignored;
  socket_.close(ignored);
}

void Connection::WaitForRequest() {
  state_ = State::kIdle;
  if (draining_) return Close();
  if (buffer_.size() > 0) return ReadHeader();
  // Nothing but the socket is held while idle.
  buffer_.shrink_to_fit();
  output_ = std::string();
  writing_ = std::string();
  read_deadline_.Arm(limits_.idle_timeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  Watch();
}

// Waits until the socket is readable, without a buffer. What that means depends on the state: the next
// request, a client that leaves while its answer is made, or the end of a closing connection.
void Connection::Watch() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(net::socket_base::wait_read,
                     [self = shared_from_this()](error_code error) { self->OnReadable(error); });
}

void Connection::OnReadable(error_code error) {
  watching_ = false;
  if (state_ == State::kClosed || error == net::error::operation_aborted) return;
  if (error) return Close();
  if (state_ == State::kIdle) return ReadHeader();
  if (state_ == State::kAnswering) return ReceiveAhead();
  if (state_ == State::kLingering) return Discard();
}

// While an answer is under way: the end of the stream means that nobody waits for it any more. Pipelined
// requests are kept, up to one header's size; behind more than that an end is only noticed when writing.
void Connection::ReceiveAhead() {
  error_code error;
  const size_t bytes = socket_.read_some(buffer_.prepare(kReceiveBytes), error);
  if (error == net::error::would_block) return Watch();
  if (error) return Close();
  buffer_.commit(bytes);
  if (buffer_.size() < limits_.header_bytes) Watch();
}

void Connection::ReadHeader() {
  state_ = State::kReading;
  arrival_ = std::chrono::steady_clock::now();
  request_id_.clear();
  keep_alive_ = true;
  head_only_ = false;
  http_1_0_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(limits_.header_bytes));
  parser_->body_limit(limits_.body_bytes);
  read_deadline_.Arm(limits_.header_timeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](error_code error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(error_code error) {
  if (state_ == State::kClosed) return;
  if (error) return OnReadFailure(error);
  const auto& message = parser_->get();
  // Where the body ends is unknown then, so nothing behind it may be taken for a request.
  if (message.count(http::field::transfer_encoding) > 0 && !message.chunked()) {
    return Refuse(501, "Transfer-Encoding other than chunked is not supported");
  }
  const std::string_view encoding = View(message[http::field::content_encoding]);
  if (!encoding.empty() && encoding != "identity") {
    return Refuse(415, "Content-Encoding is not supported; send the body as it is");
  }
  read_deadline_.Arm(limits_.body_timeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  if (!parser_->is_done() && boost::beast::iequals(message[http::field::expect], "100-continue")) {
    net::async_write(socket_, net::buffer(kContinue, sizeof(kContinue) - 1),
                     [self = shared_from_this()](error_code write_error, size_t) {
                       if (self->state_ == State::kClosed) return;
                       if (write_error) return self->Close();
                       self->ReadBody();
                     });
    return;
  }
  ReadBody();
}

void Connection::ReadBody() {
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](error_code error, size_t) { self->OnRequest(error); });
}

void Connection::OnRequest(error_code error) {
  if (state_ == State::kClosed) return;
  if (error) return OnReadFailure(error);
  read_deadline_.Disarm();
  state_ = State::kAnswering;
  HttpRequest request = TakeRequest();
  parser_.reset();
  Watch();
  try {
    call_ = handler_.Handle(std::move(request), shared_from_this());
  } catch (const std::exception& e) {  // the border: memory ran out, or a bug
    spdlog::error("event=http_handler_failed id={} reason=\"{}\"", request_id_, e.what());
    if (!complete_) Refuse(500, "internal error");
  }
}

HttpRequest Connection::TakeRequest() {
  auto& message = parser_->get();
  HttpRequest request;
  request.method = std::string(View(message.method_string()));
  request.path = PathOfTarget(View(message.target()));
  request.body = std::move(message.body());
  request.arrival = arrival_;
  const std::string_view id = View(message["x-request-id"]);
  request_id_ = IsHarmlessId(id) ? std::string(id) : NewRequestId();
  request.request_id = request_id_;
  keep_alive_ = message.keep_alive();
  head_only_ = message.method() == http::verb::head;
  http_1_0_ = message.version() < 11;
  return request;
}

void Connection::OnReadDeadline() {
  if (state_ == State::kReading && !timed_out_) {
    timed_out_ = true;
    read_deadline_.Arm(kReadGrace, [self = shared_from_this()] { self->Close(); });
    error_code ignored;
    socket_.cancel(ignored);
    return;
  }
  Close();
}

void Connection::OnReadFailure(error_code error) {
  if (timed_out_) return Refuse(408, "the request did not arrive in time");
  if (error == http::error::body_limit) {
    return Refuse(413, fmt::format("the request body is larger than {} bytes", limits_.body_bytes));
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(431, fmt::format("the request header is larger than {} bytes", limits_.header_bytes));
  }
  const bool client_left = error == http::error::end_of_stream || error == http::error::partial_message;
  if (!client_left && error.category() == http::make_error_code(http::error::bad_method).category()) {
    return Refuse(400, fmt::format("not an HTTP request: {}", error.message()));
  }
  Close();
}

// The rest of what the client sends is unknown from here on, so the connection ends with this answer.
void Connection::Refuse(int status, const std::string& message) {
  read_deadline_.Disarm();
  state_ = State::kAnswering;
  keep_alive_ = false;
  if (request_id_.empty()) request_id_ = NewRequestId();
  Respond(handler_.Refusal(status, message));
}

// Ends the sending side and waits for the client's end: closing with bytes unread would reset the connection
// and could destroy the answer on its way.
void Connection::Linger() {
  if (draining_) return Close();
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  read_deadline_.Arm(kLingerTimeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  Watch();
}

void Connection::Discard() {
  std::array<char, kReceiveBytes> scratch;
  error_code error;
  socket_.read_some(net::buffer(scratch), error);
  if (error && error != net::error::would_block) return Close();
  Watch();
}

}  // namespace spillway::gateway
