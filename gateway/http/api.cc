#include "gateway/http/api.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gateway/http/generation_call.h"
#include "gateway/http/ollama_answer.h"
#include "gateway/http/ollama_info.h"
#include "gateway/http/ollama_request.h"
#include "gateway/http/openai_answer.h"
#include "gateway/http/router.h"
#include "gateway/http/text_endpoints.h"
#include "telemetry/registry.h"

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

enum RouteId : int {
  kChat,
  kCompletion,
  kModels,
  kModel,
  kEmbeddings,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kOllamaChat,
  kOllamaGenerate,
  kOllamaEmbeddings,
  kOllamaVersion,
  kOllamaTags,
  kOllamaProcesses,
  kOllamaShow,
  kHealth,
  kReady,
  kLive,
  kVersion
};

const std::vector<Route>& Routes() {
  static const auto* const routes = new std::vector<Route>{
      {"POST", "/v1/chat/completions", kChat},
      {"POST", "/v1/completions", kCompletion},
      {"GET", "/v1/models", kModels},
      {"GET", "/v1/models/", kModel},
      {"POST", "/v1/embeddings", kEmbeddings},
      {"POST", "/tokenize", kTokenize},
      {"POST", "/detokenize", kDetokenize},
      {"POST", "/apply-template", kApplyTemplate},
      {"POST", "/api/chat", kOllamaChat},
      {"POST", "/api/generate", kOllamaGenerate},
      {"POST", "/api/embed", kOllamaEmbeddings},
      {"POST", "/api/embeddings", kOllamaEmbeddings},
      {"GET", "/api/version", kOllamaVersion},
      {"GET", "/api/tags", kOllamaTags},
      {"GET", "/api/ps", kOllamaProcesses},
      {"POST", "/api/show", kOllamaShow},
      {"GET", "/health", kHealth},
      {"GET", "/readyz", kReady},
      {"GET", "/healthz", kLive},
      {"GET", "/version", kVersion},
  };
  return *routes;
}

HttpResponse JsonResponse(int status, const Json& body) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

uint64_t RandomSeed() {
  // One per thread: std::random_device may open a file each time it is built.
  thread_local std::random_device device;
  return uint64_t{device()} << 32 | device();
}

const char* RefusalCode(int status) {
  switch (status) {
    case 403:
      return "forbidden";
    case 413:
      return "request_too_large";
    case 503:
      return "too_many_connections";
    default:
      return "invalid_http";
  }
}

bool IsOllama(const std::string& path) { return path.rfind("/api/", 0) == 0; }

HttpResponse NoSuchPath(const std::string& path) {
  if (IsOllama(path)) {
    return OllamaError({404,
                        fmt::format("there is no {}; of Ollama's API there are /api/version, tags, ps, show, "
                                    "chat and generate",
                                    path),
                        "", "not_found"});
  }
  return ErrorResponse(
      {404,
       fmt::format("there is no {}; the API is under /v1: /v1/chat/completions, /v1/completions, "
                   "/v1/models",
                   path.empty() ? "such path" : path),
       "", "not_found"});
}

HttpResponse NoSuchMethod(const HttpRequest& request, const std::string& allow) {
  HttpResponse response = ErrorResponse(
      {405, fmt::format("{} is not allowed for {}; allowed: {}", request.method, request.path, allow), "",
       "method_not_allowed"});
  response.headers.emplace_back("Allow", allow);
  return response;
}

Json ModelJson(const ServedModel& model, const std::string& id) {
  return {{"id", id}, {"object", "model"}, {"created", model.created_unix_seconds}, {"owned_by", "spillway"}};
}

RequestRecord RecordOf(const HttpRequest& request, Endpoint endpoint) {
  RequestRecord record;
  record.request_id = request.request_id;
  record.endpoint = endpoint;
  record.arrival = request.arrival;
  return record;
}

}  // namespace

Api::Api(ServedModel model, GenerationBackend& backend, telemetry::GatewayMetrics& metrics)
    : model_(std::move(model)), backend_(backend), metrics_(metrics) {
  SPILLWAY_CHECK(model_.tokenizer != nullptr);
}

std::unique_ptr<Call> Api::Handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const RouteMatch match = MatchRoute(Routes(), request.method, request.path);
  const bool found = match.kind == RouteMatch::Kind::kFound;
  if (found && match.id == kChat) return Generate(Endpoint::kChatCompletions, request, exchange);
  if (found && match.id == kCompletion) return Generate(Endpoint::kCompletions, request, exchange);
  if (found && match.id == kOllamaChat) {
    return GenerateForOllama(Endpoint::kChatCompletions, request, exchange);
  }
  if (found && match.id == kOllamaGenerate) {
    return GenerateForOllama(Endpoint::kCompletions, request, exchange);
  }
  HttpResponse response;
  if (match.kind == RouteMatch::Kind::kNoPath) {
    response = NoSuchPath(request.path);
  } else if (match.kind == RouteMatch::Kind::kNoMethod) {
    response = NoSuchMethod(request, match.allow);
  } else {
    response = Answer(match.id, request, match.rest);
  }
  spdlog::debug("event=http id={} method={} status={}", request.request_id, request.method, response.status);
  exchange->Respond(std::move(response));
  return nullptr;
}

HttpResponse Api::Answer(int route, const HttpRequest& request, const std::string& rest) const {
  constexpr char kNoEmbeddings[] = "embeddings are not served here; this server generates text under /v1";
  switch (route) {
    case kModels: {
      Json data = Json::array({ModelJson(model_, model_.id)});
      for (const std::string& alias : model_.aliases) data.push_back(ModelJson(model_, alias));
      return JsonResponse(200, {{"object", "list"}, {"data", std::move(data)}});
    }
    case kModel:
      return Model(rest);
    case kEmbeddings:
      return ErrorResponse({404, kNoEmbeddings, "", "not_found"});
    case kOllamaEmbeddings:
      return OllamaError({404, kNoEmbeddings, "", "not_found"});
    case kTokenize:
      return Tokenize(request.body, model_);
    case kDetokenize:
      return Detokenize(request.body, model_);
    case kApplyTemplate:
      return ApplyTemplate(request.body, {model_, 0, static_cast<int64_t>(std::time(nullptr))});
    case kOllamaVersion:
      return OllamaVersion();
    case kOllamaTags:
      return OllamaTags(model_);
    case kOllamaProcesses:
      return OllamaProcesses(model_);
    case kOllamaShow:
      return OllamaShow(request.body, model_);
    case kHealth:
    case kReady:
      return Health(/*readiness=*/true);
    case kLive:
      return Health(/*readiness=*/false);
    default:
      return JsonResponse(200, {{"version", telemetry::kVersion}, {"model", model_.id}});
  }
}

HttpResponse Api::Refusal(int status, const std::string& message) {
  if (status == 413) metrics_.Rejected("too_large");
  spdlog::info("event=http_refused status={} reason=\"{}\"", status, message);
  return ErrorResponse({status, message, "", RefusalCode(status)});
}

HttpResponse Api::Health(bool readiness) const {
  std::string reason;
  if (!readiness) return JsonResponse(200, {{"status", "ok"}});
  if (draining_.load()) {
    reason = "the server is draining";
  } else if (backend_.Ready(&reason)) {
    return JsonResponse(200, {{"status", "ok"}});
  }
  return JsonResponse(503, {{"status", "unavailable"}, {"reason", reason}});
}

HttpResponse Api::Model(const std::string& id) const {
  if (model_.Answers(id)) return JsonResponse(200, ModelJson(model_, id));
  return ErrorResponse({404, fmt::format("model '{}' is not served here; '{}' is", id, model_.id), "model",
                        "model_not_found"});
}

std::unique_ptr<Call> Api::Generate(Endpoint endpoint, const HttpRequest& request,
                                    const std::shared_ptr<Exchange>& exchange) {
  const auto now = static_cast<int64_t>(std::time(nullptr));
  ResponseIdentity identity;
  identity.endpoint = endpoint;
  identity.id = fmt::format("{}-{:016x}{:08x}", endpoint == Endpoint::kChatCompletions ? "chatcmpl" : "cmpl",
                            RandomSeed(), static_cast<uint32_t>(RandomSeed()));
  identity.created_unix_seconds = now;
  identity.model = model_.id;
  identity.system_fingerprint = model_.system_fingerprint;
  ParsedRequest parsed;
  auto error = ParseRequest(endpoint, request.body, {model_, RandomSeed(), now}, &parsed);
  auto format = std::make_unique<OpenAiAnswer>(std::move(identity), *model_.tokenizer, parsed.include_usage);
  RequestRecord record = RecordOf(request, endpoint);
  if (error.has_value()) {
    record.prompt_tokens = static_cast<uint32_t>(parsed.generation.prompt.size());
    Refuse(*error, *format, std::move(record), *exchange);
    return nullptr;
  }
  return Run(std::move(parsed), std::move(format), std::move(record), exchange);
}

std::unique_ptr<Call> Api::GenerateForOllama(Endpoint endpoint, const HttpRequest& request,
                                             const std::shared_ptr<Exchange>& exchange) {
  OllamaRequest parsed;
  parsed.chat = endpoint == Endpoint::kChatCompletions;
  const auto now = static_cast<int64_t>(std::time(nullptr));
  auto error = ParseOllamaRequest(request.body, {model_, RandomSeed(), now}, &parsed);
  auto format = std::make_unique<OllamaAnswer>(parsed.model, parsed.chat);
  RequestRecord record = RecordOf(request, endpoint);
  if (error.has_value()) {
    Refuse(*error, *format, std::move(record), *exchange);
    return nullptr;
  }
  if (parsed.load_only) {
    exchange->Respond(OllamaLoaded(parsed.model, parsed.chat));
    return nullptr;
  }
  return Run(std::move(parsed.generation), std::move(format), std::move(record), exchange);
}

std::unique_ptr<Call> Api::Run(ParsedRequest parsed, std::unique_ptr<AnswerFormat> format,
                               RequestRecord record, const std::shared_ptr<Exchange>& exchange) {
  AnswerFormat& told = *format;  // owned by the call
  RequestRecord refused = record;
  refused.prompt_tokens = static_cast<uint32_t>(parsed.generation.prompt.size());
  if (draining_.load()) {
    Refuse({503, "the server is draining and takes no new requests", "", "draining"}, told,
           std::move(refused), *exchange);
    return nullptr;
  }
  auto call = std::make_unique<GenerationCall>(
      GenerationCall::Parts{backend_, *model_.tokenizer, metrics_, &model_.marker_tokens}, std::move(parsed),
      std::move(format), std::move(record), exchange);
  const absl::Status status = call->Submit();
  if (!status.ok()) {
    Refuse(ErrorFromStatus(status), told, std::move(refused), *exchange);
    return nullptr;
  }
  return call;
}

void Api::Refuse(const ApiError& error, AnswerFormat& format, RequestRecord record, Exchange& exchange) {
  if (error.code == "context_length_exceeded") metrics_.Rejected("too_large");
  if (error.status == 429) metrics_.Rejected("queue_full");
  if (error.status == 503) metrics_.Rejected(error.code == "draining" ? "draining" : "no_worker");
  record.status = error.status;
  record.outcome = OutcomeOf(error.status);
  Publish(record, metrics_);
  exchange.Respond(format.Error(error));
}

}  // namespace spillway::gateway
