// The gateway's command line: one list of options with their defaults, help and checks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/stage/stage.h"
#include "gateway/http/access_policy.h"
#include "rpc/stage_client.h"
#include "spillway/v1/worker.pb.h"

namespace spillway::gateway {

struct GatewayOptions {
  std::string model;
  std::string gpu_worker;                // host:port, empty = none
  std::vector<std::string> cpu_workers;  // in token order
  std::string n_gpu_layers = "auto";
  uint32_t ctx_size = 4096;
  uint32_t parallel = 4;
  uint32_t max_rows = 256;
  uint32_t queue = 64;
  CacheType cache_type_k = CacheType::kF16;
  CacheType cache_type_v = CacheType::kF16;
  v1::ActivationType activation_type = v1::ACTIVATION_TYPE_F32;
  rpc::DataPlane data_plane = rpc::DataPlane::kAuto;
  std::string http = "127.0.0.1:8080";
  std::string grpc = "127.0.0.1:50050";
  std::string admin = "127.0.0.1:50060";
  std::string metrics = "127.0.0.1:9560";
  std::string served_name;
  std::vector<std::string> model_names;
  std::string port_file;
  bool exit_with_parent = false;
  std::vector<std::string> insecure;  // names of listeners that may bind beyond loopback
  AccessOptions access;               // of the API, for web browsers
  std::chrono::seconds worker_timeout{60};
  std::chrono::seconds drain_timeout{10};
  std::chrono::seconds hop_timeout{30};

  bool Insecure(const std::string& listener) const;
};

struct ParsedOptions {
  std::optional<GatewayOptions> options;  // unset: the help was printed, or the command line is wrong
  int exit_code = 0;
};
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace spillway::gateway
