// See options.h.
#include "gateway/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>

#include "rpc/server.h"
#include "telemetry/registry.h"

namespace spillway::gateway {

namespace {

constexpr int kUsageError = 2;

std::string CheckAddress(const std::string& address) {
  const absl::StatusOr<rpc::HostPort> parsed = rpc::ParseHostPort(address);
  return parsed.ok() ? std::string() : std::string(parsed.status().message());
}

void AddListeners(CLI::App& app, GatewayOptions& options) {
  const CLI::Validator address(CheckAddress, "HOST:PORT");
  app.add_option("--http", options.http, "OpenAI API; port 0 = any free")
      ->check(address)
      ->capture_default_str();
  app.add_option("--grpc", options.grpc, "Generation service")->check(address)->capture_default_str();
  app.add_option("--admin", options.admin, "Cluster service")->check(address)->capture_default_str();
  app.add_option("--metrics", options.metrics, "metrics and health")->check(address)->capture_default_str();
  app.add_option("--insecure", options.insecure,
                 "listener that may bind beyond loopback without TLS (repeatable)")
      ->check(CLI::IsMember({"http", "grpc", "admin", "metrics"}));
  app.add_option("--allowed-host", options.access.hosts,
                 "a name besides those of loopback that the API is reached by, through a proxy (repeatable)")
      ->check(CLI::Validator(CheckAllowedHost, "NAME"));
  app.add_option("--allowed-origin", options.access.origins,
                 "a web page's origin besides those of loopback that may use the API; * = all (repeatable)")
      ->check(CLI::Validator(CheckAllowedOrigin, "ORIGIN"));
}

void AddServing(CLI::App& app, GatewayOptions& options) {
  const CLI::Validator address(CheckAddress, "HOST:PORT");
  app.add_option("--model", options.model, "GGUF file; its header makes the plan, its vocabulary the tokens")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--gpu-worker", options.gpu_worker, "the GPU worker")->check(address);
  app.add_option("--cpu-worker", options.cpu_workers, "a CPU worker (repeatable, in token order)")
      ->check(address);
  app.add_option("--n-gpu-layers", options.n_gpu_layers,
                 "auto, all, or the number of last layers on the GPU worker")
      ->capture_default_str();
  app.add_option("--ctx-size", options.ctx_size, "tokens of a sequence, prompt and answer")
      ->check(CLI::Range(1u, 1u << 24))
      ->capture_default_str();
  app.add_option("--parallel", options.parallel, "sequences at full context that the page pool is sized for")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  app.add_option("--max-rows", options.max_rows, "rows of a micro-batch")
      ->check(CLI::Range(1u, 8192u))
      ->capture_default_str();
  const std::map<std::string, CacheType> cache_types = {{"f16", CacheType::kF16}, {"q8_0", CacheType::kQ8_0}};
  app.add_option("--cache-type-k", options.cache_type_k, "keys in pages: f16 (default) or q8_0")
      ->transform(CLI::CheckedTransformer(cache_types));
  app.add_option("--cache-type-v", options.cache_type_v, "values in pages: f16 (default) or q8_0")
      ->transform(CLI::CheckedTransformer(cache_types));
  app.add_option("--queue", options.queue, "requests that may wait; beyond it 429")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  const std::map<std::string, v1::ActivationType> types = {
      {"f32", v1::ACTIVATION_TYPE_F32}, {"f16", v1::ACTIVATION_TYPE_F16}, {"bf16", v1::ACTIVATION_TYPE_BF16}};
  app.add_option("--activation-type", options.activation_type,
                 "of activations on the wire (default f32: exact)")
      ->transform(CLI::CheckedTransformer(types));
  const std::map<std::string, rpc::DataPlane> planes = {{"auto", rpc::DataPlane::kAuto},
                                                        {"grpc", rpc::DataPlane::kGrpc}};
  app.add_option("--data-plane", options.data_plane,
                 "what carries activations: auto (default; a Unix socket where the worker runs on this host, "
                 "else gRPC) or grpc")
      ->transform(CLI::CheckedTransformer(planes));
  app.add_option("--served-name", options.served_name, "what the model is called instead of its file's name");
  app.add_option("--model-name", options.model_names, "a further name that requests may use (repeatable)");
}

void AddProcess(CLI::App& app, GatewayOptions& options) {
  const auto seconds = [&app](const char* name, std::chrono::seconds* value, const char* help) {
    app.add_option_function<uint32_t>(
           name, [value](const uint32_t& v) { *value = std::chrono::seconds(v); }, help)
        ->check(CLI::Range(1u, 86400u))
        ->default_str(std::to_string(value->count()));
  };
  seconds("--worker-timeout", &options.worker_timeout, "seconds to wait for the workers at start");
  seconds("--drain-timeout", &options.drain_timeout, "seconds that running requests get at the end");
  seconds("--hop-timeout", &options.hop_timeout, "seconds after which a silent worker is lost");
  app.add_option("--port-file", options.port_file, "JSON with the chosen addresses, written once listening");
  app.add_flag("--exit-with-parent", options.exit_with_parent,
               "end when the process that started this one ends");
}

}  // namespace

bool GatewayOptions::Insecure(const std::string& listener) const {
  return std::find(insecure.begin(), insecure.end(), listener) != insecure.end();
}

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  GatewayOptions options;
  CLI::App app("Spillway's gateway: sends every token through the stages of the plan", "spillway-gateway");
  app.set_version_flag("--version", std::string(telemetry::kVersion));
  AddServing(app, options);
  AddListeners(app, options);
  AddProcess(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error) == 0 ? 0 : kUsageError};
  }
  if (options.gpu_worker.empty() && options.cpu_workers.empty()) {
    std::cerr << "spillway-gateway: give --gpu-worker HOST:PORT, --cpu-worker HOST:PORT, or both\n";
    return {std::nullopt, kUsageError};
  }
  return {std::move(options), 0};
}

}  // namespace spillway::gateway
