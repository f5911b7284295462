#include "gateway/http/openai_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "gateway/http/chat_messages.h"
#include "gateway/text/marker.h"

namespace spillway::gateway {
namespace {

constexpr size_t kMaxTemplateVariables = 32;
constexpr size_t kMaxEffortBytes = 32;

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

// Only scalars under plain names: a template variable must not become a second way to pass messages.
std::optional<ApiError> ReadTemplateVariables(const Json& body, Json* extra) {
  const auto it = body.find("chat_template_kwargs");
  if (it == body.end() || it->is_null()) return std::nullopt;
  const std::string name = "chat_template_kwargs";
  if (!it->is_object())
    return InvalidParam(name, fmt::format("{} is {}, must be an object", name, JsonKind(*it)));
  if (it->size() > kMaxTemplateVariables) {
    return InvalidParam(
        name, fmt::format("{} has {} entries, allowed are {}", name, it->size(), kMaxTemplateVariables));
  }
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

std::optional<ApiError> ReadIds(const Json& ids, const Tokenizer& tokenizer, std::vector<int32_t>* prompt) {
  prompt->reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const Json& id = ids[i];
    const bool valid = id.is_number_unsigned() && id.get<uint64_t>() < tokenizer.n_vocab();
    if (!valid) {
      return InvalidParam(
          "prompt", fmt::format("prompt: entry {} is not a token id in [0, {})", i, tokenizer.n_vocab()));
    }
    prompt->push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return std::nullopt;
}

// Sends what a client says of reasoning to the variables that templates have for it.
void ReadReasoning(const ServedModel& model, FieldReader& fields, Json* extra) {
  const auto reads = [&](const char* name) { return model.template_text.find(name) != std::string::npos; };
  std::string effort;
  if (!fields.String("reasoning_effort", &effort)) return;
  if (reads("reasoning_effort")) {
    if (effort.size() > kMaxEffortBytes) return fields.Fail("reasoning_effort", "is too long");
    (*extra)["reasoning_effort"] = effort;
  } else if (effort == "none") {
    if (reads("enable_thinking")) (*extra)["enable_thinking"] = false;
  } else {
    fields.Fail("reasoning_effort", "is not supported by this model except as \"none\"",
                "unsupported_parameter");
  }
}

// The answer is constrained from its first token on.
bool HasForm(const Json& body) {
  const auto format = body.find("response_format");
  if (format == body.end() || !format->is_object()) return false;
  return format->value("type", Json()) != "text";
}

}  // namespace

std::optional<ApiError> RenderChat(const Json& body, const ParseContext& context, ParsedRequest* out,
                                   std::string* text) {
  const ServedModel& model = context.model;
  if (model.chat_template == nullptr) {
    return ApiError{
        400,
        fmt::format("model '{}' cannot chat: {}; use /v1/completions", model.id,
                    model.no_chat_reason.empty() ? "it has no chat template" : model.no_chat_reason),
        "model", "no_chat_template"};
  }
  ChatTemplateInput input;
  FieldReader fields(body);
  ReadTools(model, fields, out, &input.tools);
  fields.Adopt(ReadMessages(body, model, &input.messages));
  fields.Boolean("add_generation_prompt", &input.add_generation_prompt);
  input.extra = Json::object();
  ReadReasoning(model, fields, &input.extra);
  fields.Adopt(ReadTemplateVariables(body, &input.extra));
  if (!fields.ok()) return fields.error();

  const Tokenizer& tokenizer = *model.tokenizer;
  if (tokenizer.bos().has_value()) input.bos_token = tokenizer.TokenBytes(*tokenizer.bos(), /*special=*/true);
  if (tokenizer.eos().has_value()) input.eos_token = tokenizer.TokenBytes(*tokenizer.eos(), /*special=*/true);
  input.now_unix_seconds = context.now_unix_seconds;
  absl::StatusOr<std::string> rendered = model.chat_template->Render(input);
  if (!rendered.ok()) {
    return InvalidParam("messages", fmt::format("the chat template refuses these messages: {}",
                                                MessageOf(rendered.status())));
  }
  *text = *std::move(rendered);
  return std::nullopt;
}

std::optional<ApiError> ReadChatPrompt(const Json& body, const ParseContext& context, ParsedRequest* out) {
  const ServedModel& model = context.model;
  std::string text;
  if (auto error = RenderChat(body, context, out, &text)) return error;
  out->format = model.format;
  if (const ReasoningStyle* reasoning = model.format.reasoning; reasoning != nullptr) {
    const std::string_view end = WithoutTrailingBlanks(text);
    out->output.in_reasoning = end.size() >= reasoning->open.size() &&
                               end.substr(end.size() - reasoning->open.size()) == reasoning->open;
    // A call that must be made, or a form, leaves no room for the reasoning that the template has opened.
    if (out->output.in_reasoning && (!out->forced.empty() || HasForm(body))) {
      out->forced = std::string(reasoning->close) + "\n\n" + out->forced;
    }
  }
  if (auto error = RefuseHopelessText(model, text, "messages")) return error;
  out->generation.prompt = EncodeWithBos(*model.tokenizer, text + out->forced);
  return std::nullopt;
}

std::optional<ApiError> ReadCompletionPrompt(const Json& body, const ParseContext& context,
                                             std::vector<int32_t>* prompt) {
  const auto it = body.find("prompt");
  if (it == body.end() || it->is_null()) return InvalidParam("prompt", "prompt is missing");
  const Json* value = &*it;
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
