// The writing half of a connection: framing, the bounded output of a stream, deadlines for clients that do
// not read.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>
#include <utility>

#include "gateway/http/connection.h"

namespace spillway::gateway {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;

// What one write deadline covers, so that a long answer needs a rate and not a total time.
constexpr size_t kWriteSliceBytes = 64 * 1024;
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

void Connection::AppendHead(const HttpResponse& response, std::string_view framing) {
  if (draining_ || (input_ended_ && input_.empty())) keep_alive_ = false;
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  output_ += fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.status,
                         std::string_view(reason.data(), reason.size()), response.content_type);
  for (const auto& [name, value] : response.headers) output_ += fmt::format("{}: {}\r\n", name, value);
  output_ += fmt::format("x-request-id: {}\r\n{}{}", request_id_, cors_headers_, framing);
  if (!keep_alive_) output_ += "Connection: close\r\n";
  if (keep_alive_ && http_1_0_) output_ += "Connection: keep-alive\r\n";
  output_ += "\r\n";
}

void Connection::AppendContinue() {
  output_ += kContinue;
  Flush();
}

void Connection::Respond(HttpResponse response) {
  if (state_ == State::kClosed) return;
  AppendHead(response, fmt::format("Content-Length: {}\r\n", response.body.size()));
  if (!head_only_) output_ += response.body;
  complete_ = true;
  Flush();
}

void Connection::StartStream(HttpResponse head) {
  if (state_ == State::kClosed) return;
  streaming_ = true;
  chunked_ = !http_1_0_;
  if (http_1_0_) keep_alive_ = false;  // only the end of the connection can end the body
  AppendHead(head, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
  Flush();
}

void Connection::Write(std::string_view bytes) {
  if (state_ == State::kClosed || too_slow_ || bytes.empty()) return;
  if (chunked_) {
    output_ += fmt::format("{:x}\r\n", bytes.size());
    output_ += bytes;
    output_ += "\r\n";
  } else {
    output_ += bytes;
  }
  if (output_.size() + writing_.size() - written_ > limits_.stream_backlog_bytes) {
    spdlog::warn("event=slow_client id={} unsent_bytes={}", request_id_,
                 output_.size() + writing_.size() - written_);
    too_slow_ = true;
    Cut();  // posted: the call that writes must not be destroyed under its feet
    return;
  }
  Flush();
}

void Connection::EndStream(bool close_connection) {
  if (state_ == State::kClosed) return;
  if (chunked_) output_ += "0\r\n\r\n";
  if (close_connection) keep_alive_ = false;
  complete_ = true;
  Flush();
}

// Posted, so that everything one event causes leaves in one write.
void Connection::Flush() {
  if (write_pending_) return;
  write_pending_ = true;
  net::post(executor_, [self = shared_from_this()] { self->WriteSome(); });
}

void Connection::WriteSome() {
  if (state_ == State::kClosed) return;
  if (writing_.empty()) writing_.swap(output_);
  const size_t bytes = std::min(writing_.size() - written_, kWriteSliceBytes);
  write_deadline_.Arm(limits_.write_timeout, [self = shared_from_this()] {
    spdlog::warn("event=slow_client id={} reason=\"does not read\"", self->request_id_);
    self->Close();
  });
  net::async_write(socket_, net::buffer(writing_.data() + written_, bytes),
                   [self = shared_from_this()](Error error, size_t n) { self->OnWritten(error, n); });
}

void Connection::OnWritten(Error error, size_t bytes) {
  if (state_ == State::kClosed) return;
  write_deadline_.Disarm();
  if (error) return Close();
  written_ += bytes;
  if (written_ < writing_.size()) return WriteSome();
  writing_.clear();
  written_ = 0;
  if (call_ != nullptr) call_->Flushed();
  if (!output_.empty()) return WriteSome();
  write_pending_ = false;
  if (complete_) EndAnswer();
}

void Connection::EndAnswer() {
  if (call_ != nullptr) call_->Completed();
  call_.reset();
  complete_ = false;
  streaming_ = false;
  chunked_ = false;
  if (!keep_alive_) return Linger();
  WaitForRequest();
}

}  // namespace spillway::gateway
