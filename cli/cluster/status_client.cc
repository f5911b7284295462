// See status_client.h.
#include "cli/cluster/status_client.h"

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>

#include "cli/text_table.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"
#include "engine/stage/units_text.h"
#include "spillway/v1/cluster.grpc.pb.h"

namespace spillway::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::chrono::seconds kDeadline{5};

uint64_t Total(const v1::MemoryByPurpose& memory) {
  return memory.weights() + memory.kv_cache() + memory.recurrent_state() + memory.activations() +
         memory.workspace() + memory.staging() + memory.context();
}

Json MemoryJson(const v1::MemoryByPurpose& memory) {
  return {{"weights", memory.weights()},
          {"kv_cache", memory.kv_cache()},
          {"recurrent_state", memory.recurrent_state()},
          {"activations", memory.activations()},
          {"workspace", memory.workspace()},
          {"staging", memory.staging()},
          {"context", memory.context()},
          {"total", Total(memory)}};
}

std::string Holds(const v1::StageUnits& units) {
  return DescribeUnits({units.layer_begin(), units.layer_end(), units.embedding(), units.head()});
}

uint32_t Layers(const v1::StageStatus& stage) {
  return stage.expected().units().layer_end() - stage.expected().units().layer_begin();
}

std::string Microseconds(double seconds) { return fmt::format("{:.0f} us", seconds * 1e6); }

// gRPC leaves the text empty where something answers that is no gRPC server, such as the HTTP API's port.
std::string Reason(const grpc::Status& status) {
  if (!status.error_message().empty()) return status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "no answer within 5 s";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "another service of Spillway listens there";
    default:
      return "what listens there speaks no gRPC";
  }
}

}  // namespace

absl::StatusOr<v1::ClusterStatus> GetClusterStatus(const std::string& admin) {
  const auto stub = v1::Cluster::NewStub(grpc::CreateChannel(admin, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  v1::ClusterStatus reply;
  const grpc::Status status = stub->GetStatus(&context, {}, &reply);
  if (!status.ok()) {
    return Unavailable(
        "no cluster answers at {}: {}. --admin is the gateway's Cluster service: port 50060 unless "
        "--port-base says "
        "otherwise",
        admin, Reason(status));
  }
  return reply;
}

std::string StatusTable(const v1::ClusterStatus& status) {
  TextTable table({"WORKER", "ADDRESS", "DEVICE", "HOLDS", "PLANNED", "ALLOCATED", "LAYERS", "LAYER STEPS",
                   "STATE", "CAUSE", "REMEDY"});
  double age = 0;
  for (const v1::StageStatus& stage : status.stages()) {
    const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
    age = std::max(age, stage.described_seconds_ago());
    const std::string state = stage.detail().empty() ? stage.state() : stage.state() + ": " + stage.detail();
    table.Add({stage.worker(), stage.address(), or_dash(stage.device()), Holds(stage.expected().units()),
               FormatBytesHuman(Total(stage.expected().memory())), FormatBytesHuman(Total(stage.allocated())),
               std::to_string(Layers(stage)), std::to_string(stage.layer_steps()), state,
               or_dash(stage.cause()), or_dash(stage.remedy())});
  }
  return fmt::format(
      "{} ({}, {} layers), context {} x {}: {}\n{}{} running, {} waiting; {} prompt and {} generated tokens; "
      "{:.1f} tokens/s over the last minute; the workers' figures are at most {:.1f} s old\n",
      status.model(), status.architecture(), status.n_layer(), status.n_ctx(), status.parallel(),
      status.ready() ? "ready" : "not ready: " + status.detail(), table.Render(), status.running(),
      status.waiting(), status.prompt_tokens(), status.generated_tokens(),
      status.last_minute_tokens_per_second(), age);
}

Json StatusJson(const v1::ClusterStatus& status) {
  Json stages = Json::array();
  for (const v1::StageStatus& stage : status.stages()) {
    const v1::StageUnits& units = stage.expected().units();
    stages.push_back({{"worker", stage.worker()},
                      {"role", stage.role()},
                      {"address", stage.address()},
                      {"device", stage.device()},
                      {"state", stage.state()},
                      {"detail", stage.detail()},
                      {"layer_begin", units.layer_begin()},
                      {"layer_end", units.layer_end()},
                      {"embedding", units.embedding()},
                      {"head", units.head()},
                      {"layers_planned", Layers(stage)},
                      {"layer_steps", stage.layer_steps()},
                      {"described_seconds_ago", stage.described_seconds_ago()},
                      {"expected_device", stage.expected().device()},
                      {"expected_bytes", MemoryJson(stage.expected().memory())},
                      {"allocated_bytes", MemoryJson(stage.allocated())},
                      {"cause", stage.cause()},
                      {"remedy", stage.remedy()},
                      {"queue_seconds", stage.queue_seconds()},
                      {"compute_seconds", stage.compute_seconds()},
                      {"serialize_seconds", stage.serialize_seconds()},
                      {"transport_seconds", stage.transport_seconds()},
                      {"data_plane", stage.data_plane()}});
  }
  return {{"model", status.model()},
          {"identity", status.model_identity()},
          {"architecture", status.architecture()},
          {"n_layer", status.n_layer()},
          {"n_ctx", status.n_ctx()},
          {"parallel", status.parallel()},
          {"ready", status.ready()},
          {"detail", status.detail()},
          {"running", status.running()},
          {"waiting", status.waiting()},
          {"prompt_tokens", status.prompt_tokens()},
          {"generated_tokens", status.generated_tokens()},
          {"last_minute_tokens_per_second", status.last_minute_tokens_per_second()},
          {"version", status.version()},
          {"stages", stages}};
}

std::string HopTable(const v1::ClusterStatus& status) {
  TextTable table({"HOP", "QUEUE", "COMPUTE", "SERIALIZE", "TRANSPORT", "ALLOCATED", "STATE"});
  for (const v1::StageStatus& stage : status.stages()) {
    table.Add({stage.worker(), Microseconds(stage.queue_seconds()), Microseconds(stage.compute_seconds()),
               Microseconds(stage.serialize_seconds()), Microseconds(stage.transport_seconds()),
               FormatBytesHuman(Total(stage.allocated())), stage.state()});
  }
  return table.Render();
}

}  // namespace spillway::cli
