// See cluster_service.h.
#include "gateway/grpc/cluster_service.h"

#include <algorithm>
#include <chrono>

#include "truth/verdict.h"

namespace spillway::gateway {

namespace {

void SetCause(std::string_view name, v1::StageStatus* out) {
  const truth::CauseInfo* cause = truth::FindCause(name);
  out->set_cause(std::string(cause->name));
  out->set_remedy(std::string(cause->remedy));
}

void FillStage(const Pipeline& pipeline, uint32_t index, const HopMeans& hop, v1::StageStatus* out) {
  const StageSetup& setup = pipeline.setup(index);
  const StageView view = pipeline.View(index);
  out->set_index(index);
  out->set_role(setup.gpu ? "gpu" : "cpu");
  out->set_worker(setup.name);
  out->set_address(setup.target);
  out->set_state(std::string(ConditionName(view.condition)));
  out->set_detail(view.detail);
  *out->mutable_expected() = setup.expected;
  *out->mutable_allocated() = view.description.allocated();
  out->set_device(view.description.profile().device());
  if (view.described_unix_seconds > 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const double age = std::chrono::duration<double>(now).count() - view.described_unix_seconds;
    out->set_described_seconds_ago(std::max(age, 0.0));
  }
  out->set_layer_steps(view.description.layer_steps());
  out->set_cause(view.description.cause());
  out->set_remedy(view.description.remedy());
  // What a worker does not say itself: that it cannot be reached, or that it refused a stage unseen.
  if (view.condition == StageCondition::kUnreachable) SetCause("worker_unreachable", out);
  if (view.condition == StageCondition::kDegraded && out->cause().empty()) SetCause("alloc_failed", out);
  out->set_queue_seconds(hop.queue);
  out->set_compute_seconds(hop.compute);
  out->set_serialize_seconds(hop.serialize);
  out->set_transport_seconds(hop.transport);
  out->set_data_plane(view.local ? "local" : "grpc");
}

}  // namespace

v1::ClusterStatus ClusterService::Status() const {
  v1::ClusterStatus status;
  status.set_model(facts_.model);
  status.set_model_identity(facts_.model_identity);
  status.set_architecture(facts_.architecture);
  status.set_n_layer(facts_.n_layer);
  status.set_n_ctx(facts_.n_ctx);
  status.set_parallel(facts_.parallel);
  std::string why;
  status.set_ready(scheduler_.Ready(&why));
  status.set_detail(why);
  const SchedulerStatus scheduler = scheduler_.Status();
  for (uint32_t i = 0; i < pipeline_.size(); ++i) {
    FillStage(pipeline_, i, scheduler.decode_hops[i], status.add_stages());
  }
  status.set_running(scheduler.running);
  status.set_waiting(scheduler.waiting);
  status.set_prompt_tokens(scheduler.prompt_tokens);
  status.set_generated_tokens(scheduler.generated_tokens);
  status.set_last_minute_tokens_per_second(scheduler.tokens_per_second);
  status.set_epoch(pipeline_.epoch());
  status.set_version(facts_.version);
  return status;
}

grpc::Status ClusterService::GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                                       v1::ClusterStatus* status) {
  *status = Status();
  return grpc::Status::OK;
}

}  // namespace spillway::gateway
