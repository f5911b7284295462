// Errors as OpenAI clients expect them: {"error":{message,type,param,code}} with the HTTP status and retry
// headers.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/http/exchange.h"

namespace spillway::gateway {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // "" = null
  std::string code;   // "" = null
};

ApiError InvalidParam(std::string param, std::string message);

// What a backend's status means to a client: InvalidArgument 400, ResourceExhausted 429, Unavailable 503,
// else 500.
ApiError ErrorFromStatus(const absl::Status& status);

nlohmann::ordered_json ErrorBody(const ApiError& error);

// With Retry-After and x-should-retry where the status is one that clients retry on their own.
HttpResponse ErrorResponse(const ApiError& error);

}  // namespace spillway::gateway
