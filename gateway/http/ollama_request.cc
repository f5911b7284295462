#include "gateway/http/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gateway/http/bounded_json.h"

namespace spillway::gateway {
namespace {

// options.X here is Y there; what Ollama does without it.
struct OptionRow {
  const char* ollama;
  const char* openai;
  Json fallback;
};

const std::vector<OptionRow>& OptionRows() {
  static const auto* const rows = new std::vector<OptionRow>{
      {"temperature", "temperature", 0.8},
      {"top_k", "top_k", 40},
      {"top_p", "top_p", 0.9},
      {"min_p", "min_p", nullptr},
      {"repeat_penalty", "repeat_penalty", nullptr},
      {"presence_penalty", "presence_penalty", nullptr},
      {"frequency_penalty", "frequency_penalty", nullptr},
      {"seed", "seed", nullptr},
      {"stop", "stop", nullptr},
      {"num_predict", "max_tokens", nullptr},
  };
  return *rows;
}

struct Refused {
  const char* name;
  std::vector<Json> harmless;
  const char* why;
};

constexpr char kFixed[] = "is decided when the server starts, not by a request";
constexpr char kUnsupported[] = "is not supported";

const std::vector<Refused>& RefusedOptions() {
  static const auto* const rows = new std::vector<Refused>{
      {"f16_kv", {true}, kFixed},
      {"low_vram", {false}, kFixed},
      {"main_gpu", {0}, kFixed},
      {"mirostat", {0}, kUnsupported},
      {"num_batch", {}, kFixed},
      {"num_gpu", {-1}, "is decided when the server starts (--n-gpu-layers), not by a request"},
      {"num_keep", {-1, 0, 4}, kUnsupported},
      {"num_thread", {0}, kFixed},
      {"numa", {false}, kFixed},
      {"penalize_newline", {true}, kUnsupported},
      {"repeat_last_n", {-1}, "is not supported except as -1: penalties look at the whole context"},
      {"tfs_z", {1, 1.0}, kUnsupported},
      {"typical_p", {1, 1.0}, kUnsupported},
      {"use_mlock", {false}, kFixed},
      {"use_mmap", {true}, kFixed},
  };
  return *rows;
}

const std::vector<Refused>& RefusedFields() {
  static const auto* const rows = new std::vector<Refused>{
      {"context", {Json::array()}, "is not supported: send the conversation to /api/chat"},
      {"images", {Json::array()}, "is not supported: this model reads text only"},
      {"logprobs", {false}, "is not supported here; /v1/chat/completions has logprobs"},
      {"suffix", {""}, kUnsupported},
      {"template", {""}, "is not supported: the model's own chat template is used; raw does without"},
  };
  return *rows;
}

void Refuse(const std::vector<Refused>& rows, FieldReader& fields) {
  for (const Refused& row : rows) {
    const Json* value = fields.Find(row.name);
    if (value == nullptr) continue;
    if (std::find(row.harmless.begin(), row.harmless.end(), *value) != row.harmless.end()) continue;
    fields.Fail(row.name, row.why, "unsupported_parameter");
  }
}

// The number of tokens a sequence may have: at most what the server has room for.
void ReadOptions(const ServedModel& model, FieldReader& fields, Json* body, int64_t* num_ctx) {
  *num_ctx = model.n_ctx;
  static const auto* const kNone = new Json(Json::object());
  const Json* given = fields.Find("options");
  if (given != nullptr && !given->is_object()) {
    return fields.Fail("options", fmt::format("is {}, must be an object", JsonKind(*given)));
  }
  FieldReader options(given == nullptr ? *kNone : *given, "options.");
  Refuse(RefusedOptions(), options);
  if (options.Integer("num_ctx", 1, INT32_MAX, num_ctx) && *num_ctx > model.n_ctx) {
    options.Fail("num_ctx", fmt::format("is {}, this server was started with a context of {} (--ctx-size)",
                                        *num_ctx, model.n_ctx));
  }
  for (const OptionRow& row : OptionRows()) {
    const Json* value = options.Find(row.ollama);
    (*body)[row.openai] = value == nullptr ? row.fallback : *value;
  }
  int64_t predict = 0;
  if (options.Integer("num_predict", -2, INT32_MAX, &predict)) {
    // -1 and -2 go on to the end of the context; more than there is room for means the same.
    (*body)["max_tokens"] = predict <= 0 || predict > model.n_ctx ? Json() : Json(predict);
  }
  fields.Adopt(options.error());
}

void ReadThink(const ServedModel& model, FieldReader& fields, Json* body) {
  const Json* think = fields.Find("think");
  if (think == nullptr) return;
  const bool off = *think == false;
  if (!think->is_boolean() && !think->is_string()) {
    return fields.Fail("think", R"(must be true, false, "low", "medium" or "high")");
  }
  if (!off && !model.format.MayReason()) {
    return fields.Fail("think", fmt::format("is not supported: {} does not think", model.id));
  }
  const auto reads = [&](const char* name) { return model.template_text.find(name) != std::string::npos; };
  Json variables = Json::object();
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!model.format.harmony && reads(name)) variables[name] = !off;
  }
  (*body)["chat_template_kwargs"] = std::move(variables);
  if (think->is_string() && reads("reasoning_effort")) (*body)["reasoning_effort"] = *think;
}

// "json" or a schema.
void ReadFormat(FieldReader& fields, Json* body) {
  const Json* format = fields.Find("format");
  if (format == nullptr || *format == "") return;
  if (*format == "json") {
    (*body)["response_format"] = {{"type", "json_object"}};
  } else if (format->is_object()) {
    (*body)["response_format"] = {
        {"type", "json_schema"},
        {"json_schema", {{"name", "format"}, {"strict", true}, {"schema", *format}}}};
  } else {
    fields.Fail("format", R"(must be "json" or a JSON schema)");
  }
}

void ReadKeepAlive(FieldReader& fields) {
  const Json* keep = fields.Find("keep_alive");
  if (keep != nullptr && !keep->is_number() && !keep->is_string()) {
    fields.Fail("keep_alive", "must be a number of seconds or a duration such as \"5m\"");
  }
}

bool IsZero(const Json* keep) {
  if (keep == nullptr) return false;
  return (keep->is_number() && keep->get<double>() == 0) || *keep == "0" || *keep == "0s";
}

void ReadChat(const Json& given, FieldReader& fields, Json* body, bool* load_only) {
  const Json* messages = fields.Find("messages");
  *load_only = messages == nullptr || (messages->is_array() && messages->empty());
  if (*load_only) return;
  (*body)["messages"] = *messages;
  if (!messages->is_array()) return;
  for (size_t i = 0; i < messages->size(); ++i) {
    const Json& message = (*messages)[i];
    const bool images = message.is_object() && message.contains("images") && !message["images"].empty();
    if (images) {
      fields.Fail(fmt::format("messages[{}].images", i), "is not supported: this model reads text only",
                  "unsupported_parameter");
    }
  }
  if (given.contains("tools")) (*body)["tools"] = given["tools"];
}

void ReadGenerate(const ServedModel& model, FieldReader& fields, Json* body, bool* load_only, bool* raw) {
  std::string prompt, system;
  fields.String("prompt", &prompt);
  fields.String("system", &system);
  fields.Boolean("raw", raw);
  *load_only = prompt.empty();
  if (*load_only) return;
  if (model.chat_template == nullptr && !system.empty()) {
    return fields.Fail("system", "is not supported: the model has no chat template");
  }
  *raw = *raw || model.chat_template == nullptr;
  if (*raw) {
    (*body)["prompt"] = prompt;
    if (!body->contains("max_tokens") || (*body)["max_tokens"].is_null()) (*body)["max_tokens"] = model.n_ctx;
    return;
  }
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  (*body)["messages"] = std::move(messages);
}

// Errors of the common reader name its fields.
ApiError InOllamaTerms(ApiError error) {
  std::string name = error.param == "response_format" ? "format" : "";
  for (const OptionRow& row : OptionRows()) {
    if (error.param == row.openai) name = fmt::format("options.{}", row.ollama);
  }
  if (name.empty()) return error;
  if (error.message.rfind(error.param, 0) == 0) error.message.replace(0, error.param.size(), name);
  error.param = name;
  return error;
}

std::optional<ApiError> CapContext(int64_t num_ctx, GenerationRequest* request) {
  const auto n = static_cast<int64_t>(request->prompt.size());
  if (n >= num_ctx) {
    return InvalidParam("options.num_ctx",
                        fmt::format("options.num_ctx is {}, the prompt has {} tokens", num_ctx, n));
  }
  const auto room = static_cast<uint32_t>(num_ctx - n);
  if (request->max_tokens == 0 || request->max_tokens > room) request->max_tokens = room;
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ParseOllamaRequest(std::string_view text, const ParseContext& context,
                                           OllamaRequest* out) {
  const ServedModel& model = context.model;
  Json given;
  if (auto error = ParseJsonObject(text, &given)) return error;
  FieldReader fields(given);
  if (!fields.String("model", &out->model) && fields.ok()) fields.Fail("model", "is missing");
  if (fields.ok() && !model.Answers(out->model)) {
    return ApiError{404,
                    fmt::format("model '{}' not found: '{}' is served here", Shortened(out->model), model.id),
                    "model", "model_not_found"};
  }
  Json body = Json::object();
  bool stream = true, raw = false;
  int64_t num_ctx = 0;
  fields.Boolean("stream", &stream);
  body["stream"] = stream;
  Refuse(RefusedFields(), fields);
  ReadKeepAlive(fields);
  ReadOptions(model, fields, &body, &num_ctx);
  ReadThink(model, fields, &body);
  ReadFormat(fields, &body);
  if (out->chat) {
    ReadChat(given, fields, &body, &out->load_only);
  } else {
    ReadGenerate(model, fields, &body, &out->load_only, &raw);
  }
  if (out->load_only && IsZero(fields.Find("keep_alive"))) {
    fields.Fail("keep_alive", "is 0, but this server keeps its model in memory until it is stopped",
                "unsupported_parameter");
  }
  if (!fields.ok()) return fields.error();
  out->generation.stream = stream;
  if (out->load_only) return std::nullopt;
  const Endpoint endpoint = raw ? Endpoint::kCompletions : Endpoint::kChatCompletions;
  if (auto error = ParseBody(endpoint, body, context, &out->generation)) return InOllamaTerms(*error);
  return CapContext(num_ctx, &out->generation.generation);
}

}  // namespace spillway::gateway
