#include "gateway/http/openai_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "gateway/http/bounded_json.h"

namespace spillway::gateway {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxTemplateVariables = 32;

// OpenAI's newer name for system messages; published templates know only the older one.
constexpr std::string_view kDeveloperRole = "developer";

std::vector<int32_t> EncodeWithBos(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> tokens = tokenizer.Encode(text, /*parse_special=*/true);
  const std::optional<int32_t> bos = tokenizer.bos();
  // Templates of some models write the BOS themselves; two would be a prompt the model never saw.
  const bool begins_with_bos = bos.has_value() && !tokens.empty() && tokens.front() == *bos;
  if (tokenizer.add_bos() && bos.has_value() && !begins_with_bos) tokens.insert(tokens.begin(), *bos);
  return tokens;
}

// Text that no tokenization fits into the context is refused before it costs one: megabytes take seconds.
std::optional<ApiError> RefuseHopelessText(const ServedModel& model, std::string_view text,
                                           const char* param) {
  if (model.longest_token_bytes == 0) return std::nullopt;
  const size_t least_tokens = text.size() / model.longest_token_bytes;
  if (least_tokens <= model.n_ctx) return std::nullopt;
  return InvalidParam(param, fmt::format("{} has {} bytes, which is at least {} tokens; the context holds {}",
                                         param, text.size(), least_tokens, model.n_ctx));
}

std::optional<ApiError> ReadPart(const json& part, const std::string& where, std::string* text) {
  if (!part.is_object())
    return InvalidParam(where, fmt::format("{} is {}, must be an object", where, JsonKind(part)));
  FieldReader fields(part, where + ".");
  std::string type;
  if (!fields.String("type", &type) && fields.ok()) fields.Fail("type", "is missing");
  if (fields.ok() && type != "text") {
    fields.Fail("type", fmt::format("is '{}', this model reads only 'text'", Shortened(type)),
                "unsupported_value");
  }
  if (!fields.String("text", text) && fields.ok()) fields.Fail("text", "is missing");
  return fields.error();
}

// String, array of text parts (joined by newlines), or null, which is an empty text.
std::optional<ApiError> ReadContent(const json& message, const std::string& where, bool required,
                                    std::string* text) {
  const auto it = message.find("content");
  if (it == message.end()) {
    if (!required) return std::nullopt;
    return InvalidParam(where, where + " is missing");
  }
  if (it->is_null()) return std::nullopt;
  if (it->is_string()) {
    *text = it->get<std::string>();
    return std::nullopt;
  }
  if (!it->is_array()) {
    return InvalidParam(
        where, fmt::format("{} is {}, must be a string, an array of parts, or null", where, JsonKind(*it)));
  }
  for (size_t i = 0; i < it->size(); ++i) {
    std::string part;
    if (auto error = ReadPart((*it)[i], fmt::format("{}[{}]", where, i), &part)) return error;
    if (i > 0) *text += '\n';
    *text += part;
  }
  return std::nullopt;
}

std::optional<ApiError> ReadMessage(const json& message, const std::string& where, ordered_json* out) {
  if (!message.is_object()) {
    return InvalidParam(where, fmt::format("{} is {}, must be an object", where, JsonKind(message)));
  }
  FieldReader fields(message, where + ".");
  std::string role;
  if (!fields.String("role", &role) && fields.ok()) fields.Fail("role", "is missing");
  if (role == kDeveloperRole) role = "system";
  if (role == "tool" || role == "function") {
    fields.Fail("role", fmt::format("is '{}', but tool calls are not supported", role), "unsupported_value");
  } else if (role != "system" && role != "user" && role != "assistant") {
    fields.Fail("role",
                fmt::format("is '{}', allowed are system, developer, user and assistant", Shortened(role)));
  }
  for (const char* name : {"tool_calls", "function_call"}) {
    const json* calls = fields.Find(name);
    if (calls != nullptr && !calls->empty()) fields.Fail(name, "is not supported", "unsupported_parameter");
  }
  std::string text;
  fields.Adopt(ReadContent(message, where + ".content", role != "assistant", &text));
  if (!fields.ok()) return fields.error();
  *out = ordered_json{{"role", std::move(role)}, {"content", std::move(text)}};
  return std::nullopt;
}

// Only scalars under plain names: a template variable must not become a second way to pass messages.
std::optional<ApiError> ReadTemplateVariables(const json& body, ordered_json* extra) {
  const auto it = body.find("chat_template_kwargs");
  if (it == body.end() || it->is_null()) return std::nullopt;
  const std::string name = "chat_template_kwargs";
  if (!it->is_object())
    return InvalidParam(name, fmt::format("{} is {}, must be an object", name, JsonKind(*it)));
  if (it->size() > kMaxTemplateVariables) {
    return InvalidParam(
        name, fmt::format("{} has {} entries, allowed are {}", name, it->size(), kMaxTemplateVariables));
  }
  *extra = ordered_json::object();
  for (const auto& [key, value] : it->items()) {
    const std::string where = name + "." + Shortened(key);
    if (!value.is_primitive()) {
      return InvalidParam(
          where, fmt::format("{} is {}, must be a string, a number or a boolean", where, JsonKind(value)));
    }
    if (key == "messages" || key == "tools" || key == "bos_token" || key == "eos_token") {
      return InvalidParam(where, where + " cannot be replaced");
    }
    (*extra)[key] = value;
  }
  return std::nullopt;
}

std::optional<ApiError> ReadIds(const json& ids, const Tokenizer& tokenizer, std::vector<int32_t>* prompt) {
  prompt->reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const json& id = ids[i];
    const bool valid = id.is_number_unsigned() && id.get<uint64_t>() < tokenizer.n_vocab();
    if (!valid) {
      return InvalidParam(
          "prompt", fmt::format("prompt: entry {} is not a token id in [0, {})", i, tokenizer.n_vocab()));
    }
    prompt->push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ReadChatPrompt(const json& body, const ParseContext& context,
                                       std::vector<int32_t>* prompt) {
  const ServedModel& model = context.model;
  if (model.chat_template == nullptr) {
    return ApiError{
        400,
        fmt::format("model '{}' cannot chat: {}; use /v1/completions", model.id,
                    model.no_chat_reason.empty() ? "it has no chat template" : model.no_chat_reason),
        "model", "no_chat_template"};
  }
  const auto messages = body.find("messages");
  if (messages == body.end() || messages->is_null()) return InvalidParam("messages", "messages is missing");
  if (!messages->is_array() || messages->empty()) {
    return InvalidParam("messages", "messages must be an array of at least one message");
  }
  ChatTemplateInput input;
  auto& list = input.messages.get_ref<ordered_json::array_t&>();
  for (size_t i = 0; i < messages->size(); ++i) {
    ordered_json message;
    if (auto error = ReadMessage((*messages)[i], fmt::format("messages[{}]", i), &message)) return error;
    list.push_back(std::move(message));
  }
  FieldReader fields(body);
  fields.Boolean("add_generation_prompt", &input.add_generation_prompt);
  fields.Adopt(ReadTemplateVariables(body, &input.extra));
  if (!fields.ok()) return fields.error();

  const Tokenizer& tokenizer = *model.tokenizer;
  if (tokenizer.bos().has_value()) input.bos_token = tokenizer.TokenBytes(*tokenizer.bos(), /*special=*/true);
  if (tokenizer.eos().has_value()) input.eos_token = tokenizer.TokenBytes(*tokenizer.eos(), /*special=*/true);
  input.now_unix_seconds = context.now_unix_seconds;
  const absl::StatusOr<std::string> text = model.chat_template->Render(input);
  if (!text.ok()) {
    return InvalidParam(
        "messages", fmt::format("the chat template refuses these messages: {}", MessageOf(text.status())));
  }
  if (auto error = RefuseHopelessText(model, *text, "messages")) return error;
  *prompt = EncodeWithBos(tokenizer, *text);
  return std::nullopt;
}

std::optional<ApiError> ReadCompletionPrompt(const json& body, const ParseContext& context,
                                             std::vector<int32_t>* prompt) {
  const auto it = body.find("prompt");
  if (it == body.end() || it->is_null()) return InvalidParam("prompt", "prompt is missing");
  const json* value = &*it;
  const bool nested = value->is_array() && !value->empty() && !value->front().is_number();
  if (nested) {
    if (value->size() != 1) {
      return InvalidParam("prompt",
                          fmt::format("prompt holds {} prompts, allowed is 1 in a request", value->size()));
    }
    value = &value->front();
  }
  if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    if (auto error = RefuseHopelessText(context.model, text, "prompt")) return error;
    *prompt = EncodeWithBos(*context.model.tokenizer, text);
  } else if (value->is_array()) {
    if (auto error = ReadIds(*value, *context.model.tokenizer, prompt)) return error;
  } else {
    return InvalidParam(
        "prompt", fmt::format("prompt is {}, must be a string or an array of token ids", JsonKind(*value)));
  }
  if (prompt->empty()) return InvalidParam("prompt", "prompt is empty, must have at least one token");
  return std::nullopt;
}

}  // namespace spillway::gateway
