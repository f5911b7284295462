// The Cluster service: what every stage was promised, what it says of itself, and how its hops went lately.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "gateway/pipeline/pipeline.h"
#include "gateway/scheduler/token_scheduler.h"
#include "spillway/v1/cluster.grpc.pb.h"

namespace spillway::gateway {

struct ClusterFacts {
  std::string model;
  std::string model_identity;
  std::string architecture;
  uint32_t n_layer = 0;
  uint32_t n_ctx = 0;
  uint32_t parallel = 0;
  std::string version;
};

// Thread-safe. Everything it is given outlives it.
class ClusterService final : public v1::Cluster::Service {
 public:
  ClusterService(ClusterFacts facts, const Pipeline& pipeline, const TokenScheduler& scheduler)
      : facts_(std::move(facts)), pipeline_(pipeline), scheduler_(scheduler) {}

  v1::ClusterStatus Status() const;
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::ClusterStatus* status) override;

 private:
  const ClusterFacts facts_;
  const Pipeline& pipeline_;
  const TokenScheduler& scheduler_;
};

}  // namespace spillway::gateway
