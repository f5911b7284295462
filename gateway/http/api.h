// The endpoints of OpenAI, Ollama and llama.cpp, and the health pages of the gateway: which path does what,
// and what is refused before a generation begins. Knows no sockets; generations live in GenerationCall.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "gateway/http/answer_format.h"
#include "gateway/http/exchange.h"
#include "gateway/http/openai_request.h"
#include "gateway/http/request_record.h"
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
  std::unique_ptr<Call> GenerateForOllama(Endpoint endpoint, const HttpRequest& request,
                                          const std::shared_ptr<Exchange>& exchange);
  std::unique_ptr<Call> Run(ParsedRequest parsed, std::unique_ptr<AnswerFormat> format, RequestRecord record,
                            const std::shared_ptr<Exchange>& exchange);
  // The error that ends a request, told, counted and logged.
  void Refuse(const ApiError& error, AnswerFormat& format, RequestRecord record, Exchange& exchange);
  HttpResponse Answer(int route, const HttpRequest& request, const std::string& rest) const;
  HttpResponse Health(bool readiness) const;
  HttpResponse Model(const std::string& id) const;

  const ServedModel model_;
  GenerationBackend& backend_;
  telemetry::GatewayMetrics& metrics_;
  std::atomic<bool> draining_{false};
};

}  // namespace spillway::gateway
