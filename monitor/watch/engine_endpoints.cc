// What Ollama's /api/ps and /api/show and llama-server's /props say. Their JSON is a stranger's: every field
// may be missing or of another type.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/status.h"
#include "monitor/watch/engine_watch.h"
#include "telemetry/http_client.h"

namespace spillway::monitor {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr uint64_t kMaxBody = uint64_t{8} << 20;
constexpr size_t kMaxModels = 64;
constexpr size_t kMaxText = 200;
constexpr uint64_t kStateElementBytes = 2;  // f16, what both engines take by default

uint64_t Unsigned(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const auto value = found->get<double>();
  return value > 0 && value < 1e18 ? static_cast<uint64_t>(value) : 0;
}

std::string Text(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, kMaxText) : "";
}

absl::StatusOr<Json> ParseAnswer(const absl::StatusOr<telemetry::HttpAnswer>& answer,
                                 const std::string& path) {
  if (!answer.ok()) return answer.status();
  if (answer->status != 200) return Unavailable("{} answered {}", path, answer->status);
  Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Unavailable("{} answered no JSON object", path);
  return json;
}

// Bytes of keys and values of one token, from the model's own description; 0 when it says too little or its
// layers differ.
uint64_t StateBytesPerToken(const Json& show) {
  const auto info = show.find("model_info");
  if (info == show.end() || !info->is_object()) return 0;
  const std::string prefix = Text(*info, "general.architecture") + ".";
  const uint64_t layers = Unsigned(*info, prefix + "block_count");
  const uint64_t heads = Unsigned(*info, prefix + "attention.head_count");
  const uint64_t kv_heads = Unsigned(*info, prefix + "attention.head_count_kv");
  if (layers == 0 || heads == 0 || kv_heads == 0 || Unsigned(*info, prefix + "attention.sliding_window") > 0)
    return 0;
  const uint64_t head_dim = Unsigned(*info, prefix + "embedding_length") / heads;
  uint64_t key = Unsigned(*info, prefix + "attention.key_length");
  uint64_t value = Unsigned(*info, prefix + "attention.value_length");
  if (key == 0) key = head_dim;
  if (value == 0) value = head_dim;
  if (layers > 4096 || kv_heads > 65536 || key > 65536 || value > 65536) return 0;
  return layers * kv_heads * (key + value) * kStateElementBytes;
}

absl::Status AskOllama(const std::string& address, milliseconds timeout, truth::EngineFacts* facts) {
  facts->context_option = "num_ctx";
  SPILLWAY_ASSIGN_OR_RETURN(
      const Json ps, ParseAnswer(telemetry::HttpGet(address, "/api/ps", timeout, kMaxBody), "/api/ps"));
  const auto models = ps.find("models");
  if (models == ps.end() || !models->is_array()) return Unavailable("/api/ps lists no models");
  for (const Json& row : *models) {
    if (!row.is_object() || facts->models.size() == kMaxModels) continue;
    truth::EngineModel model;
    model.name = Text(row, "name");
    model.total_bytes = Unsigned(row, "size");
    if (row.contains("size_vram")) model.vram_bytes = Unsigned(row, "size_vram");
    model.context = Unsigned(row, "context_length");
    // Only what is split needs the arithmetic of its context.
    if (model.vram_bytes.has_value() && *model.vram_bytes < model.total_bytes) {
      const std::string body =
          Json{{"model", model.name}}.dump(-1, ' ', false, Json::error_handler_t::replace);
      const auto show =
          ParseAnswer(telemetry::HttpPost(address, "/api/show", body, timeout, kMaxBody), "/api/show");
      if (show.ok()) model.state_bytes_per_token = StateBytesPerToken(*show);
    }
    facts->models.push_back(std::move(model));
  }
  return absl::OkStatus();
}

absl::Status AskLlamaServer(const std::string& address, milliseconds timeout, truth::EngineFacts* facts) {
  facts->context_option = "--ctx-size";
  SPILLWAY_ASSIGN_OR_RETURN(const Json props,
                            ParseAnswer(telemetry::HttpGet(address, "/props", timeout, kMaxBody), "/props"));
  truth::EngineModel model;
  const auto path = props.find("model_path");
  const std::string file = path != props.end() && path->is_string() ? path->get<std::string>() : "";
  model.name = std::filesystem::path(file).filename().string().substr(0, kMaxText);
  if (model.name.empty()) model.name = "the model";
  // It tells no sizes; its file does, where it is ours to see.
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (!error) model.total_bytes = bytes;
  const auto settings = props.find("default_generation_settings");
  if (settings != props.end() && settings->is_object()) model.context = Unsigned(*settings, "n_ctx");
  facts->models.push_back(std::move(model));
  return absl::OkStatus();
}

}  // namespace

truth::EngineFacts AskEngine(const EngineTarget& target, milliseconds timeout) {
  truth::EngineFacts facts;
  const absl::Status status = target.kind == EngineKind::kOllama
                                  ? AskOllama(target.address, timeout, &facts)
                                  : AskLlamaServer(target.address, timeout, &facts);
  if (!status.ok()) {
    facts.reachable = false;
    facts.error = MessageOf(status);
    facts.models.clear();
  }
  return facts;
}

}  // namespace spillway::monitor
