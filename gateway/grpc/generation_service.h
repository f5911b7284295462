// The Generation service: text or tokens in, tokens and text out as they are drawn. A client that leaves
// cancels.
#pragma once

#include <grpcpp/grpcpp.h>

#include "engine/tokenizer/tokenizer.h"
#include "gateway/scheduler/scheduler.h"
#include "spillway/v1/generation.grpc.pb.h"
#include "telemetry/gateway_metrics.h"

namespace spillway::gateway {

// Thread-safe. Everything it is given outlives it.
class GenerationService final : public v1::Generation::Service {
 public:
  GenerationService(GenerationBackend& backend, const Tokenizer& tokenizer,
                    telemetry::GatewayMetrics& metrics)
      : backend_(backend), tokenizer_(tokenizer), metrics_(metrics) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateReply>* writer) override;

 private:
  absl::StatusOr<GenerationRequest> Parse(const v1::GenerateRequest& request) const;
  absl::Status Run(const v1::GenerateRequest& request, grpc::ServerContext& context,
                   grpc::ServerWriter<v1::GenerateReply>& writer);

  GenerationBackend& backend_;
  const Tokenizer& tokenizer_;
  telemetry::GatewayMetrics& metrics_;
};

}  // namespace spillway::gateway
