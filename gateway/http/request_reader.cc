#include "gateway/http/request_reader.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

namespace spillway::gateway {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct RequestReader::Parser : http::request_parser<http::string_body> {};

RequestReader::RequestReader(const Limits& limits) : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser_->body_limit(limits.body_bytes);
}

RequestReader::~RequestReader() = default;

RequestReader::Progress RequestReader::Feed(std::string_view bytes, size_t* used) {
  *used = 0;
  if (parser_->is_done()) return Progress::kDone;  // a head without a body
  if (bytes.empty()) return Progress::kMore;
  parser_->eager(head_told_);
  error_code error;
  *used = parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::need_more) {
    // The parser bounds a header, but not the line that begins a chunk.
    if (bytes.size() - *used <= limits_.header_bytes) return Progress::kMore;
    error = http::error::header_limit;
  }
  if (error == http::error::header_limit) {
    return Fail(431, fmt::format("a header of the request is larger than {} bytes", limits_.header_bytes));
  }
  if (error == http::error::body_limit) {
    return Fail(413, fmt::format("the request body is larger than {} bytes", limits_.body_bytes));
  }
  if (error) return Fail(400, fmt::format("not an HTTP request: {}", error.message()));
  if (!head_told_ && parser_->is_header_done()) return ReadHead();
  return parser_->is_done() ? Progress::kDone : Progress::kMore;
}

RequestReader::Progress RequestReader::Fail(int status, std::string message) {
  failure_ = {status, std::move(message)};
  return Progress::kFailed;
}

RequestReader::Progress RequestReader::ReadHead() {
  const auto& message = parser_->get();
  const auto text = [&message](auto field) { return std::string(View(message[field])); };
  head_told_ = true;
  head_.method = std::string(View(message.method_string()));
  head_.target = std::string(View(message.target()));
  head_.host = text(http::field::host);
  head_.origin = text(http::field::origin);
  head_.request_id = text("x-request-id");
  head_.preflight_method = text(http::field::access_control_request_method);
  head_.preflight_headers = text(http::field::access_control_request_headers);
  head_.keep_alive = message.keep_alive();
  head_.http_1_0 = message.version() < 11;
  head_.expects_continue = !head_.http_1_0 && !parser_->is_done() &&
                           boost::beast::iequals(message[http::field::expect], "100-continue");
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && !head_.http_1_0)) {
    return Fail(400, "a request must name its Host, once");
  }
  // Where the body ends is unknown then, so nothing behind it may be taken for a request.
  if (message.count(http::field::transfer_encoding) > 0 && !message.chunked()) {
    return Fail(501, "Transfer-Encoding other than chunked is not supported");
  }
  const std::string encoding = text(http::field::content_encoding);
  if (!encoding.empty() && encoding != "identity") {
    return Fail(415, "Content-Encoding is not supported; send the body as it is");
  }
  return Progress::kHead;
}

std::string RequestReader::TakeBody() { return std::move(parser_->get().body()); }

}  // namespace spillway::gateway
