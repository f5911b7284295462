#include "gateway/http/request_record.h"

#include <spdlog/spdlog.h>

namespace spillway::gateway {

std::string_view OutcomeOf(int status) {
  if (status == 429 || status == 503) return "rejected";
  if (status >= 500) return "error";
  return status >= 400 ? "client_error" : "ok";
}

void Publish(const RequestRecord& record, telemetry::GatewayMetrics& metrics) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - record.arrival).count();
  metrics.RequestFinished(EndpointName(record.endpoint), record.outcome, seconds);
  spdlog::info(
      "event=request id={} endpoint={} status={} outcome={} finish={} stream={} prompt_tokens={} "
      "generated_tokens={} "
      "ttft_ms={:.1f} total_ms={:.1f}",
      record.request_id, EndpointName(record.endpoint), record.status, record.outcome, record.finish,
      record.stream, record.prompt_tokens, record.generated_tokens, record.ttft * 1e3, seconds * 1e3);
}

}  // namespace spillway::gateway
