// The OpenAI endpoints and the health pages of the gateway: which path does what, and what is refused before
// a generation begins. Knows no sockets; generations live in GenerationCall.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "gateway/http/exchange.h"
#include "gateway/http/openai_request.h"
#include "gateway/http/served_model.h"
#include "gateway/scheduler/scheduler.h"
#include "telemetry/gateway_metrics.h"

namespace spillway::gateway {

// Thread-safe. Borrows backend, metrics and what the model points to; they outlive it, and it outlives the
// HttpServer that serves it: build Api, then HttpServer; destroy in reverse.
class Api : public RequestHandler {
 public:
  Api(ServedModel model, GenerationBackend& backend, telemetry::GatewayMetrics& metrics);

  std::unique_ptr<Call> Handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) override;
  HttpResponse Refusal(int status, const std::string& message) override;
  void BeginDrain() override { draining_.store(true); }

 private:
  std::unique_ptr<Call> Generate(Endpoint endpoint, const HttpRequest& request,
                                 const std::shared_ptr<Exchange>& exchange);
  void Refuse(const ApiError& error, const HttpRequest& request, Endpoint endpoint, uint32_t prompt_tokens,
              Exchange& exchange);
  HttpResponse Health(bool readiness) const;
  HttpResponse Model(const std::string& id) const;

  const ServedModel model_;
  GenerationBackend& backend_;
  telemetry::GatewayMetrics& metrics_;
  std::atomic<bool> draining_{false};
};

}  // namespace spillway::gateway
