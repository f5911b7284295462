#include "gateway/http/api_error.h"

#include <string_view>
#include <utility>

#include "engine/base/status.h"

namespace spillway::gateway {
namespace {

constexpr char kQueueFullRetrySeconds[] = "1";
constexpr char kUnavailableRetrySeconds[] = "5";

std::string_view TypeOf(int status) {
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  if (status >= 500) return "server_error";
  return "invalid_request_error";
}

}  // namespace

ApiError InvalidParam(std::string param, std::string message) {
  return {400, std::move(message), std::move(param), "invalid_value"};
}

ApiError ErrorFromStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return {400, MessageOf(status), "", "invalid_value"};
    case absl::StatusCode::kResourceExhausted:
      return {429, MessageOf(status), "", "queue_full"};
    case absl::StatusCode::kUnavailable:
      return {503, MessageOf(status), "", "unavailable"};
    default:
      return {500, MessageOf(status), "", "internal_error"};
  }
}

nlohmann::ordered_json ErrorBody(const ApiError& error) {
  using Json = nlohmann::ordered_json;
  Json body;
  body["message"] = error.message;
  body["type"] = TypeOf(error.status);
  body["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  body["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
  return Json{{"error", std::move(body)}};
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorBody(error).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (error.status == 429 || error.status == 503) {
    response.headers.emplace_back("Retry-After",
                                  error.status == 429 ? kQueueFullRetrySeconds : kUnavailableRetrySeconds);
    response.headers.emplace_back("x-should-retry", "true");
  } else if (error.status >= 500) {
    // The same request would meet the same fault; clients retry a 5xx unless told otherwise.
    response.headers.emplace_back("x-should-retry", "false");
  }
  return response;
}

}  // namespace spillway::gateway
