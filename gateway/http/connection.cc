// The reading half and the life of a connection; connection_write.cc holds the writing half.
#include "gateway/http/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/post.hpp>
#include <random>
#include <utility>

#include "gateway/http/access_policy.h"
#include "gateway/http/router.h"

namespace spillway::gateway {
namespace {

namespace net = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLingerTimeout{2'000};
constexpr std::chrono::milliseconds kDrainGrace{
    1'000};  // for a request that is half read when draining begins
constexpr std::chrono::milliseconds kProbeInterval{5'000};
constexpr size_t kReceiveBytes = 16 * 1024;
constexpr size_t kMaxRequestIdBytes = 128;

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

void Deadline::Arm(std::chrono::milliseconds after, std::function<void()> on_expiry) {
  timer_.expires_after(after);
  timer_.async_wait([this, number = ++number_, on_expiry = std::move(on_expiry)](error_code error) {
    if (!error && number == number_) on_expiry();
  });
}

void Deadline::Disarm() {
  ++number_;
  timer_.cancel();
}

Connection::Connection(net::ip::tcp::socket socket, const Parts& parts)
    : socket_(std::move(socket)),
      executor_(socket_.get_executor()),
      handler_(parts.handler),
      limits_(parts.limits),
      access_(parts.access),
      set_(parts.set),
      read_deadline_(executor_),
      write_deadline_(executor_) {}

Connection::~Connection() { set_.Remove(this); }

Poster Connection::poster() {
  return [executor = executor_](std::function<void()> task) { net::post(executor, std::move(task)); };
}

void Connection::Start() {
  net::post(executor_, [self = shared_from_this()] {
    self->SetUpSocket();
    self->WaitForRequest();
  });
}

void Connection::StartRefusing(int status, const std::string& message) {
  net::post(executor_, [self = shared_from_this(), status, message] {
    self->SetUpSocket();
    self->Refuse(status, message);
  });
}

void Connection::SetUpSocket() {
  error_code ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);
  if (limits_.send_buffer_bytes > 0) {
    socket_.set_option(net::socket_base::send_buffer_size(limits_.send_buffer_bytes), ignored);
  }
  socket_.non_blocking(true, ignored);
}

void Connection::Drain() {
  net::post(executor_, [self = shared_from_this()] {
    self->draining_ = true;
    if (self->state_ == State::kIdle || self->state_ == State::kLingering) self->Close();
    if (self->state_ == State::kReading) {
      self->read_deadline_.Arm(kDrainGrace, [self] { self->OnReadDeadline(); });
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
  if (!input_.empty()) return BeginRequest();
  if (input_ended_) return Close();
  // Nothing but the socket is held while idle.
  input_ = std::string();
  output_ = std::string();
  writing_ = std::string();
  read_deadline_.Arm(limits_.idle_timeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  Watch();
}

// Waits until the socket is readable, without a buffer. What that means depends on the state.
void Connection::Watch() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(net::socket_base::wait_read,
                     [self = shared_from_this()](error_code error) { self->OnReadable(error); });
}

// Where reading is over or pauses, readability says nothing; a reset still ends the connection.
void Connection::WatchForLoss() {
  if (watching_for_loss_) return;
  watching_for_loss_ = true;
  socket_.async_wait(net::socket_base::wait_error, [self = shared_from_this()](error_code error) {
    if (error != net::error::operation_aborted) self->Close();
  });
}

void Connection::OnReadable(error_code error) {
  watching_ = false;
  if (state_ == State::kClosed || error == net::error::operation_aborted) return;
  std::array<char, kReceiveBytes> bytes;
  size_t n = 0;
  if (!error) n = socket_.read_some(net::buffer(bytes), error);
  if (error == net::error::would_block) return Watch();
  if (error == net::error::eof) return OnInputEnd();
  if (error) return Close();
  if (state_ == State::kLingering) return Watch();  // dropped
  input_.append(bytes.data(), n);
  if (state_ == State::kIdle) return BeginRequest();
  if (state_ == State::kReading) return Parse();
  // An answer is under way: pipelined requests wait, and past one header's size their client too.
  if (input_.size() < limits_.header_bytes) return Watch();
  WatchForLoss();
}

void Connection::OnInputEnd() {
  input_ended_ = true;
  if (state_ != State::kAnswering) return Close();
  WatchForLoss();
  ProbeClient();
}

// The end of the input means that the client has closed, and nobody waits for the answer, or that it only
// sends no more (shutdown); both look the same until something is written: a peer that has closed answers
// with a reset, which WatchForLoss sees. So bytes without meaning are written, an interim response before the
// answer and a filler within a stream, again and again because a relay between may swallow the first. Where
// there are none to write (HTTP/1.0), the client is taken to have left: a generation nobody reads is the
// worse error.
void Connection::ProbeClient() {
  if (state_ != State::kAnswering || complete_) return;
  if (!streaming_ && http_1_0_) return Close();
  if (streaming_) {
    const std::string_view filler = call_ == nullptr ? "" : call_->Filler();
    if (filler.empty()) return Close();
    Write(filler);
  } else {
    AppendContinue();
  }
  read_deadline_.Arm(kProbeInterval, [self = shared_from_this()] { self->ProbeClient(); });
}

void Connection::BeginRequest() {
  state_ = State::kReading;
  arrival_ = std::chrono::steady_clock::now();
  request_id_.clear();
  cors_headers_.clear();
  keep_alive_ = true;
  head_only_ = false;
  http_1_0_ = false;
  reader_.emplace(RequestReader::Limits{limits_.header_bytes, limits_.body_bytes});
  read_deadline_.Arm(limits_.header_timeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  Parse();
}

void Connection::Parse() {
  for (;;) {
    size_t used = 0;
    const RequestReader::Progress progress = reader_->Feed(input_, &used);
    input_.erase(0, used);
    switch (progress) {
      case RequestReader::Progress::kMore:
        return input_ended_ ? Close() : Watch();
      case RequestReader::Progress::kFailed:
        TakeHead();
        return Refuse(reader_->failure().status, reader_->failure().message);
      case RequestReader::Progress::kHead:
        if (const std::string why = TakeHead(); !why.empty()) return Refuse(403, why);
        read_deadline_.Arm(limits_.body_timeout, [self = shared_from_this()] { self->OnReadDeadline(); });
        if (reader_->head().expects_continue && input_.empty()) AppendContinue();
        break;
      case RequestReader::Progress::kDone:
        return OnRequest();
    }
  }
}

// Remembers what the answer needs to know of the request. Why the request is refused; "" = it is not.
std::string Connection::TakeHead() {
  const RequestHead& head = reader_->head();
  keep_alive_ = head.keep_alive;
  head_only_ = head.method == "HEAD";
  http_1_0_ = head.http_1_0;
  request_id_ = IsHarmlessId(head.request_id) ? head.request_id : NewRequestId();
  std::string why = access_.WhyRefused(head);
  if (why.empty()) cors_headers_ = access_.CorsHeaders(head);
  return why;
}

void Connection::OnRequest() {
  read_deadline_.Disarm();
  state_ = State::kAnswering;
  if (AccessPolicy::IsPreflight(reader_->head())) {
    cors_headers_ += AccessPolicy::PreflightHeaders(reader_->head());
    Respond({200, "text/plain", {}, ""});
  } else {
    HandOver();
  }
  reader_.reset();
  if (input_ended_) return ProbeClient();
  if (input_.size() < limits_.header_bytes) return Watch();
  WatchForLoss();
}

void Connection::HandOver() {
  HttpRequest request;
  request.method = reader_->head().method;
  request.path = PathOfTarget(reader_->head().target);
  request.body = reader_->TakeBody();
  request.arrival = arrival_;
  request.request_id = request_id_;
  try {
    call_ = handler_.Handle(std::move(request), shared_from_this());
  } catch (const std::exception& e) {  // the border: memory ran out, or a bug
    spdlog::error("event=http_handler_failed id={} reason=\"{}\"", request_id_, e.what());
    if (!complete_) Refuse(500, "internal error");
  }
}

void Connection::OnReadDeadline() {
  if (state_ == State::kReading) return Refuse(408, "the request did not arrive in time");
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
  if (draining_ || input_ended_) return Close();
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  read_deadline_.Arm(kLingerTimeout, [self = shared_from_this()] { self->OnReadDeadline(); });
  Watch();
}

}  // namespace spillway::gateway
