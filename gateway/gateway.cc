// See gateway.h. The members of Parts stand in the order they are built in; C++ destroys them in reverse.
#include "gateway/gateway.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/status.h"
#include "engine/chat/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/cluster_plan.h"
#include "gateway/grpc/cluster_service.h"
#include "gateway/grpc/generation_service.h"
#include "gateway/http/api.h"
#include "gateway/http/server.h"
#include "gateway/model_facts.h"
#include "gateway/scheduler/token_scheduler.h"
#include "rpc/convert.h"
#include "rpc/server.h"
#include "telemetry/gateway_metrics.h"
#include "telemetry/registry.h"

namespace spillway::gateway {

namespace {

constexpr std::chrono::milliseconds kServerShutdown{2'000};

int64_t NowNanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::vector<StageEndpoint> Endpoints(Pipeline& pipeline, const Plan& plan) {
  std::vector<StageEndpoint> endpoints;
  for (uint32_t i = 0; i < pipeline.size(); ++i) {
    const StageSetup& setup = pipeline.setup(i);
    endpoints.push_back({setup.name, setup.gpu, plan.stages[i].options, pipeline.link(i)});
  }
  return endpoints;
}

// What the workers said they hold; on the host device none of it is VRAM.
MemoryUse MemoryOf(const Pipeline& pipeline) {
  MemoryUse use;
  for (uint32_t i = 0; i < pipeline.size(); ++i) {
    const v1::DescribeReply described = pipeline.View(i).description;
    const v1::MemoryByPurpose& held = described.allocated();
    const uint64_t bytes = held.weights() + held.kv_cache() + held.recurrent_state() + held.activations() +
                           held.workspace() + held.staging() + held.context();
    use.total_bytes += bytes;
    if (pipeline.setup(i).gpu && described.profile().device() != "host") use.vram_bytes += bytes;
  }
  return use;
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Whoever waits for the file sees all of it or nothing.
absl::Status WritePortFile(const std::string& path, const nlohmann::ordered_json& addresses) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream out(temporary, std::ios::trunc);
    out << addresses.dump() << '\n';
    out.flush();
    if (!out) return Unavailable("port file: cannot write {}", temporary);
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) return Unavailable("port file: cannot rename {} to {}: {}", temporary, path, error.message());
  return absl::OkStatus();
}

}  // namespace

struct Gateway::Parts {
  GatewayOptions options;
  Model model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<grammar::ConstraintCompiler> constraints;
  std::unique_ptr<ChatTemplate> chat_template;  // null: no_chat_reason says why
  std::string no_chat_reason;
  std::string chat_template_text;
  std::string model_id;
  std::unique_ptr<telemetry::Registry> registry;
  std::unique_ptr<telemetry::GatewayMetrics> metrics;
  ClusterPlan cluster;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<TokenScheduler> scheduler;
  std::unique_ptr<GenerationService> generation;
  std::unique_ptr<ClusterService> status;
  std::unique_ptr<Api> api;
  std::unique_ptr<rpc::Server> grpc_server;
  std::unique_ptr<rpc::Server> admin_server;
  std::unique_ptr<HttpServer> http_server;
  std::unique_ptr<telemetry::HealthServer> health_server;

  absl::Status LoadModelParts();
  void BuildServing();
  absl::Status Listen();
  ServedModel Served() const;
};

absl::Status Gateway::Parts::LoadModelParts() {
  SPILLWAY_ASSIGN_OR_RETURN(model, LoadModel(options.model));
  SPILLWAY_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(*model.file));
  constraints = std::make_unique<grammar::ConstraintCompiler>(*tokenizer);
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::string> source,
                            model.file->GetString("tokenizer.chat_template"));
  if (!source.has_value()) {
    no_chat_reason = "the model file has no chat template";
  } else if (auto parsed = ChatTemplate::Parse(*source); parsed.ok()) {
    chat_template = *std::move(parsed);
    chat_template_text = *source;
  } else {
    no_chat_reason = "the model's chat template is not supported: " + MessageOf(parsed.status());
    spdlog::warn("event=chat_template_unsupported detail=\"{}\"", MessageOf(parsed.status()));
  }
  model_id = options.served_name.empty() ? model.config.name : options.served_name;
  return absl::OkStatus();
}

ServedModel Gateway::Parts::Served() const {
  ServedModel served;
  served.id = model_id;
  served.aliases = options.model_names;
  served.created_unix_seconds = NowNanoseconds() / 1'000'000'000;
  served.system_fingerprint = "fp_" + model.file->identity().substr(0, 12);
  served.n_ctx = cluster.plan.n_ctx;
  served.tokenizer = tokenizer.get();
  served.constraints = constraints.get();
  for (uint32_t token = 0; token < tokenizer->n_vocab(); ++token) {
    const size_t bytes = tokenizer->TokenBytes(static_cast<int32_t>(token), /*special=*/true).size();
    served.longest_token_bytes = std::max(served.longest_token_bytes, static_cast<uint32_t>(bytes));
  }
  served.chat_template = chat_template.get();
  if (chat_template != nullptr) served.ReadTemplate(chat_template_text);
  served.facts = ReadModelFacts(*model.file);
  // Lives as long as the API: the pipeline is built before it and destroyed after it.
  served.memory = [pipeline = pipeline.get()] { return MemoryOf(*pipeline); };
  served.no_chat_reason = no_chat_reason;
  return served;
}

void Gateway::Parts::BuildServing() {
  const auto epoch = static_cast<uint64_t>(NowNanoseconds());
  pipeline = std::make_unique<Pipeline>(cluster.stages, epoch, metrics.get());
  SchedulerOptions scheduling;
  scheduling.n_vocab = model.config.n_vocab;
  scheduling.n_embd = model.config.n_embd;
  scheduling.max_queue = options.queue;
  scheduling.activation_type = options.activation_type;
  scheduling.hop_timeout = options.hop_timeout;
  scheduler = std::make_unique<TokenScheduler>(scheduling, Endpoints(*pipeline, cluster.plan), metrics.get());
  generation = std::make_unique<GenerationService>(*scheduler, *tokenizer, *metrics);
  ClusterFacts facts;
  facts.model = model_id;
  facts.model_identity = model.file->identity();
  facts.architecture = model.config.architecture;
  facts.n_layer = model.config.n_layer;
  facts.n_ctx = cluster.plan.n_ctx;
  facts.parallel = cluster.plan.parallel;
  facts.version = telemetry::kVersion;
  status = std::make_unique<ClusterService>(std::move(facts), *pipeline, *scheduler);
  api = std::make_unique<Api>(Served(), *scheduler, *metrics);
}

absl::Status Gateway::Parts::Listen() {
  rpc::ServerOptions grpc;
  grpc.name = "grpc";
  grpc.address = options.grpc;
  grpc.insecure = options.Insecure("grpc");
  grpc.services = {generation.get()};
  SPILLWAY_ASSIGN_OR_RETURN(grpc_server, rpc::Server::Start(grpc));
  rpc::ServerOptions admin;
  admin.name = "admin";
  admin.address = options.admin;
  admin.insecure = options.Insecure("admin");
  admin.services = {status.get()};
  SPILLWAY_ASSIGN_OR_RETURN(admin_server, rpc::Server::Start(admin));
  grpc_server->SetReady(true);
  admin_server->SetReady(true);
  HttpOptions http;
  http.address = options.http;
  http.insecure = options.Insecure("http");
  http.access = options.access;
  http.limits.drain_timeout = kServerShutdown;
  SPILLWAY_ASSIGN_OR_RETURN(http_server, HttpServer::Start(http, *api));
  SPILLWAY_ASSIGN_OR_RETURN(health_server, telemetry::HealthServer::Start(options.metrics, *registry));
  health_server->SetReadiness([this] {
    std::string why;
    scheduler->Ready(&why);
    return why;
  });
  const nlohmann::ordered_json addresses = {
      {"api", fmt::format("{}:{}", HostOf(options.http), http_server->port())},
      {"grpc", grpc_server->address()},
      {"admin", admin_server->address()},
      {"metrics", fmt::format("{}:{}", HostOf(options.metrics), health_server->port())}};
  spdlog::info("event=listening addresses={}", addresses.dump());
  return options.port_file.empty() ? absl::OkStatus() : WritePortFile(options.port_file, addresses);
}

Gateway::Gateway(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Gateway::~Gateway() { Drain(); }

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(const GatewayOptions& options,
                                                        const std::function<bool()>& interrupted) {
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  SPILLWAY_RETURN_IF_ERROR(parts->LoadModelParts());
  parts->registry = std::make_unique<telemetry::Registry>("gateway");
  parts->metrics = std::make_unique<telemetry::GatewayMetrics>(*parts->registry, parts->model_id);
  SPILLWAY_ASSIGN_OR_RETURN(parts->cluster, PlanCluster(options, parts->model, interrupted));
  parts->BuildServing();
  SPILLWAY_RETURN_IF_ERROR(parts->Listen());
  parts->pipeline->Start(*parts->scheduler);
  return std::unique_ptr<Gateway>(new Gateway(std::move(parts)));
}

// The scheduler first: it refuses what is new and ends what is running, so that the listeners have only
// writing left.
void Gateway::Drain() {
  if (parts_ == nullptr) return;
  parts_->api->BeginDrain();
  parts_->grpc_server->SetReady(false);
  parts_->scheduler->Shutdown(parts_->options.drain_timeout);
  parts_->http_server->Stop();
  parts_->grpc_server->Shutdown(kServerShutdown);
  parts_->admin_server->Shutdown(kServerShutdown);
  parts_->pipeline->Stop();
  parts_.reset();
}

}  // namespace spillway::gateway
