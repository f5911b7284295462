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
#include "gateway/http/router.h"
#include "telemetry/registry.h"

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

enum RouteId : int { kChat, kCompletion, kModels, kModel, kEmbeddings, kHealth, kReady, kLive, kVersion };

const std::vector<Route>& Routes() {
  static const auto* const routes = new std::vector<Route>{
      {"POST", "/v1/chat/completions", kChat},
      {"POST", "/v1/completions", kCompletion},
      {"GET", "/v1/models", kModels},
      {"GET", "/v1/models/", kModel},
      {"POST", "/v1/embeddings", kEmbeddings},
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

HttpResponse NoSuchPath(const std::string& path) {
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

}  // namespace

Api::Api(ServedModel model, GenerationBackend& backend, telemetry::GatewayMetrics& metrics)
    : model_(std::move(model)), backend_(backend), metrics_(metrics) {
  SPILLWAY_CHECK(model_.tokenizer != nullptr);
}

std::unique_ptr<Call> Api::Handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const RouteMatch match = MatchRoute(Routes(), request.method, request.path);
  if (match.kind == RouteMatch::Kind::kFound && match.id == kChat) {
    return Generate(Endpoint::kChatCompletions, request, exchange);
  }
  if (match.kind == RouteMatch::Kind::kFound && match.id == kCompletion) {
    return Generate(Endpoint::kCompletions, request, exchange);
  }
  HttpResponse response;
  if (match.kind == RouteMatch::Kind::kNoPath) {
    response = NoSuchPath(request.path);
  } else if (match.kind == RouteMatch::Kind::kNoMethod) {
    response = NoSuchMethod(request, match.allow);
  } else if (match.id == kModels) {
    Json data = Json::array({ModelJson(model_, model_.id)});
    for (const std::string& alias : model_.aliases) data.push_back(ModelJson(model_, alias));
    response = JsonResponse(200, {{"object", "list"}, {"data", std::move(data)}});
  } else if (match.id == kModel) {
    response = Model(match.rest);
  } else if (match.id == kEmbeddings) {
    response = ErrorResponse(
        {404, "embeddings are not served here; this server generates text under /v1", "", "not_found"});
  } else if (match.id == kHealth || match.id == kReady) {
    response = Health(/*readiness=*/true);
  } else if (match.id == kLive) {
    response = Health(/*readiness=*/false);
  } else {
    response = JsonResponse(200, {{"version", telemetry::kVersion}, {"model", model_.id}});
  }
  spdlog::debug("event=http id={} method={} status={}", request.request_id, request.method, response.status);
  exchange->Respond(std::move(response));
  return nullptr;
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
  if (draining_.load()) {
    Refuse({503, "the server is draining and takes no new requests", "", "draining"}, request, endpoint, 0,
           *exchange);
    return nullptr;
  }
  const auto now = static_cast<int64_t>(std::time(nullptr));
  ParsedRequest parsed;
  if (auto error = ParseRequest(endpoint, request.body, {model_, RandomSeed(), now}, &parsed)) {
    Refuse(*error, request, endpoint, static_cast<uint32_t>(parsed.generation.prompt.size()), *exchange);
    return nullptr;
  }
  const auto prompt_tokens = static_cast<uint32_t>(parsed.generation.prompt.size());
  RequestRecord record;
  record.request_id = request.request_id;
  record.endpoint = endpoint;
  record.arrival = request.arrival;
  ResponseIdentity identity;
  identity.endpoint = endpoint;
  identity.id = fmt::format("{}-{:016x}{:08x}", endpoint == Endpoint::kChatCompletions ? "chatcmpl" : "cmpl",
                            RandomSeed(), static_cast<uint32_t>(RandomSeed()));
  identity.created_unix_seconds = now;
  identity.model = model_.id;
  identity.system_fingerprint = model_.system_fingerprint;
  auto call =
      std::make_unique<GenerationCall>(GenerationCall::Parts{backend_, *model_.tokenizer, metrics_},
                                       std::move(parsed), std::move(identity), std::move(record), exchange);
  const absl::Status status = call->Submit();
  if (!status.ok()) {
    Refuse(ErrorFromStatus(status), request, endpoint, prompt_tokens, *exchange);
    return nullptr;
  }
  return call;
}

void Api::Refuse(const ApiError& error, const HttpRequest& request, Endpoint endpoint, uint32_t prompt_tokens,
                 Exchange& exchange) {
  if (error.code == "context_length_exceeded") metrics_.Rejected("too_large");
  if (error.status == 429) metrics_.Rejected("queue_full");
  if (error.status == 503) metrics_.Rejected(error.code == "draining" ? "draining" : "no_worker");
  RequestRecord record;
  record.request_id = request.request_id;
  record.endpoint = endpoint;
  record.arrival = request.arrival;
  record.status = error.status;
  record.outcome = OutcomeOf(error.status);
  record.prompt_tokens = prompt_tokens;
  Publish(record, metrics_);
  exchange.Respond(ErrorResponse(error));
}

}  // namespace spillway::gateway
