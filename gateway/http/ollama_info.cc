#include "gateway/http/ollama_info.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "gateway/http/bounded_json.h"
#include "gateway/http/ollama_answer.h"
#include "telemetry/registry.h"

namespace spillway::gateway {
namespace {

// The model stays until the server is stopped; clients want a date.
constexpr char kNever[] = "9999-12-31T23:59:59+00:00";
constexpr int64_t kNanoseconds = 1'000'000'000;

HttpResponse JsonResponse(const Json& body) {
  HttpResponse response;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

// With a tag, which Ollama's names always have.
std::string Tagged(const std::string& name) {
  return name.find(':') == std::string::npos ? name + ":latest" : name;
}

std::string ParameterSize(uint64_t parameters) {
  if (parameters >= 1'000'000'000) return fmt::format("{:.1f}B", static_cast<double>(parameters) / 1e9);
  return fmt::format("{:.2f}M", static_cast<double>(parameters) / 1e6);
}

Json Details(const ModelFacts& facts) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", facts.architecture},
          {"families", Json::array({facts.architecture})},
          {"parameter_size", ParameterSize(facts.parameters)},
          {"quantization_level", facts.quantization}};
}

// The model under one of its names.
Json Listed(const ServedModel& model, const std::string& name) {
  const ModelFacts& facts = model.facts;
  return {{"name", Tagged(name)},
          {"model", Tagged(name)},
          {"modified_at", OllamaTime(facts.modified_unix_seconds * kNanoseconds)},
          {"size", facts.file_bytes},
          {"digest", facts.identity},
          {"details", Details(facts)}};
}

}  // namespace

HttpResponse OllamaVersion() { return JsonResponse({{"version", telemetry::kVersion}}); }

HttpResponse OllamaTags(const ServedModel& model) {
  Json list = Json::array();
  list.push_back(Listed(model, model.id));
  for (const std::string& alias : model.aliases) list.push_back(Listed(model, alias));
  return JsonResponse({{"models", std::move(list)}});
}

HttpResponse OllamaProcesses(const ServedModel& model) {
  Json entry = Listed(model, model.id);
  const MemoryUse memory = model.memory ? model.memory() : MemoryUse();
  entry["size"] = memory.total_bytes;
  entry["size_vram"] = memory.vram_bytes;
  entry["expires_at"] = kNever;
  entry["context_length"] = model.n_ctx;
  Json list = Json::array();
  list.push_back(std::move(entry));
  return JsonResponse({{"models", std::move(list)}});
}

HttpResponse OllamaShow(std::string_view text, const ServedModel& model) {
  Json body;
  if (auto error = ParseJsonObject(text, &body)) return OllamaError(*error);
  FieldReader fields(body);
  std::string name;
  for (const char* field : {"name", "model"}) fields.String(field, &name);  // name: the older one
  if (fields.ok() && name.empty()) fields.Fail("model", "is missing");
  if (!fields.ok()) return OllamaError(*fields.error());
  if (!model.Answers(name)) {
    return OllamaError({404,
                        fmt::format("model '{}' not found: '{}' is served here", Shortened(name), model.id),
                        "model", "model_not_found"});
  }
  Json capabilities = Json::array({"completion"});
  if (model.format.calls != nullptr || model.format.harmony) capabilities.push_back("tools");
  if (model.format.MayReason()) capabilities.push_back("thinking");
  return JsonResponse({{"modelfile", ""},
                       {"parameters", ""},
                       {"template", model.template_text},
                       {"details", Details(model.facts)},
                       {"model_info", model.facts.metadata},
                       {"capabilities", std::move(capabilities)},
                       {"modified_at", OllamaTime(model.facts.modified_unix_seconds * kNanoseconds)}});
}

}  // namespace spillway::gateway
