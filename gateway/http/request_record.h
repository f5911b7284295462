// What is told about one request when it is over: its metrics and its one line in the log. Never prompt or
// answer text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/http/api_error.h"
#include "gateway/http/openai_request.h"
#include "telemetry/gateway_metrics.h"

namespace spillway::gateway {

struct RequestRecord {
  std::string request_id;
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::chrono::steady_clock::time_point arrival;
  int status = 200;
  std::string_view outcome = "ok";  // as GatewayMetrics names them
  uint32_t prompt_tokens = 0;
  uint32_t generated_tokens = 0;
  double ttft = 0;                   // seconds, 0 = no token came
  std::string_view finish = "none";  // stop | length | error | cancelled | none
  bool stream = false;
};

void Publish(const RequestRecord& record, telemetry::GatewayMetrics& metrics);

// client_error | rejected | error
std::string_view OutcomeOf(int status);

}  // namespace spillway::gateway
