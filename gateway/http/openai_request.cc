#include "gateway/http/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/base/status.h"
#include "gateway/http/bounded_json.h"
#include "gateway/http/openai_prompt.h"
#include "gateway/http/response_format.h"

namespace spillway::gateway {
namespace {

constexpr int64_t kMaxStopTokenIds = 64;

// A field that is known and not supported, and the values of it that ask for nothing.
struct Unsupported {
  const char* name;
  std::vector<Json> harmless;
};

const std::vector<Unsupported>& UnsupportedFields() {
  static const auto* const fields = new std::vector<Unsupported>{
      {"audio", {}},
      {"chat_template", {}},
      {"continue_final_message", {false}},
      {"function_call", {"none", "auto"}},
      {"functions", {Json::array()}},
      {"grammar", {""}},
      {"guided_choice", {Json::array()}},
      {"guided_grammar", {""}},
      {"guided_json", {}},
      {"guided_regex", {""}},
      {"json_schema", {}},
      {"modalities", {Json::array({"text"}), Json::array()}},
      {"prediction", {}},
      {"prompt_logprobs", {0}},
      {"store", {false}},
      {"structured_outputs", {}},
      {"suffix", {""}},
      {"use_beam_search", {false}},
      {"web_search_options", {}},
  };
  return *fields;
}

// Of chat only: without a template nothing would come of them.
const std::vector<Unsupported>& ChatFields() {
  static const auto* const fields = new std::vector<Unsupported>{
      {"reasoning_effort", {"none"}}, {"tool_choice", {"none", "auto"}}, {"tools", {Json::array()}}};
  return *fields;
}

void Refuse(const std::vector<Unsupported>& rows, FieldReader& fields) {
  for (const Unsupported& field : rows) {
    const Json* value = fields.Find(field.name);
    if (value == nullptr) continue;
    if (std::find(field.harmless.begin(), field.harmless.end(), *value) != field.harmless.end()) continue;
    if (field.harmless.empty()) {
      fields.Fail(field.name, "is not supported", "unsupported_parameter");
    } else {
      fields.Fail(field.name, fmt::format("is not supported except as {}", field.harmless.front().dump()),
                  "unsupported_parameter");
    }
  }
}

void ReadModel(const ServedModel& model, FieldReader& fields) {
  std::string name;
  if (!fields.String("model", &name) || model.Answers(name)) return;
  fields.Adopt(ApiError{404, fmt::format("model '{}' is not served here; '{}' is", Shortened(name), model.id),
                        "model", "model_not_found"});
}

void ReadStop(FieldReader& fields, StopMatcher* stop) {
  const Json* value = fields.Find("stop");
  if (value == nullptr) return;
  const Json list = value->is_string() ? Json::array({*value}) : *value;
  if (!list.is_array() || list.size() > kMaxStopStrings) {
    fields.Fail("stop", fmt::format("must be a string or an array of at most {} strings", kMaxStopStrings));
    return;
  }
  std::vector<std::string> strings;
  for (const Json& entry : list) {
    const bool valid = entry.is_string() && !entry.get_ref<const std::string&>().empty() &&
                       entry.get_ref<const std::string&>().size() <= kMaxStopBytes;
    if (!valid) {
      fields.Fail("stop", fmt::format("must hold strings of 1 to {} bytes", kMaxStopBytes));
      return;
    }
    strings.push_back(entry.get<std::string>());
  }
  absl::StatusOr<StopMatcher> matcher = StopMatcher::Create(strings);
  if (!matcher.ok()) return fields.Fail("stop", MessageOf(matcher.status()));
  *stop = *std::move(matcher);
}

void ReadLogitBias(uint32_t n_vocab, FieldReader& fields, SamplingParams* sampling) {
  const Json* value = fields.Find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object() || value->size() > kMaxLogitBias) {
    fields.Fail(
        "logit_bias",
        fmt::format("must be an object of at most {} token ids with numbers in [-100, 100]", kMaxLogitBias));
    return;
  }
  for (const auto& [key, bias] : value->items()) {
    uint32_t id = 0;
    const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (status != std::errc() || end != key.data() + key.size() || id >= n_vocab) {
      fields.Fail("logit_bias",
                  fmt::format("names token '{}', allowed are ids in [0, {})", Shortened(key), n_vocab));
      return;
    }
    const double number = bias.is_number() ? bias.get<double>() : 1e9;
    if (!(number >= -100 && number <= 100)) {
      fields.Fail("logit_bias", fmt::format("for token {} must be a number in [-100, 100]", id));
      return;
    }
    sampling->logit_bias.emplace_back(static_cast<int32_t>(id), static_cast<float>(number));
  }
}

void ReadLogprobs(Endpoint endpoint, FieldReader& fields, SamplingParams* sampling) {
  int64_t count = 0;
  if (endpoint == Endpoint::kCompletions) {
    if (!fields.Integer("logprobs", 0, kMaxTopLogprobs, &count)) return;
    sampling->logprobs = true;
  } else {
    fields.Boolean("logprobs", &sampling->logprobs);
    if (fields.Integer("top_logprobs", 0, kMaxTopLogprobs, &count) && !sampling->logprobs) {
      fields.Fail("top_logprobs", "needs logprobs to be true");
    }
  }
  sampling->n_logprobs = static_cast<uint32_t>(count);
}

void ReadSampling(Endpoint endpoint, const ParseContext& context, FieldReader& fields,
                  SamplingParams* sampling) {
  const uint32_t n_vocab = context.model.tokenizer->n_vocab();
  fields.Number("temperature", {0, 2}, &sampling->temperature);
  fields.Number("top_p", {.low = 0, .high = 1, .above_low = true}, &sampling->top_p);
  fields.Number("min_p", {.low = 0, .high = 1, .below_high = true}, &sampling->min_p);
  fields.Number("presence_penalty", {-2, 2}, &sampling->presence_penalty);
  fields.Number("frequency_penalty", {-2, 2}, &sampling->frequency_penalty);
  for (const char* name : {"repeat_penalty", "repetition_penalty"}) {  // llama.cpp's and vLLM's name
    fields.Number(name, {.low = 0, .high = 10, .above_low = true}, &sampling->repetition_penalty);
  }
  int64_t top_k = 0;
  if (fields.Integer("top_k", -1, INT32_MAX, &top_k)) {  // -1 and 0 both mean off to those who send them
    sampling->top_k = top_k <= 0 ? 0 : static_cast<uint32_t>(std::min<int64_t>(top_k, n_vocab));
  }
  int64_t seed = 0;
  sampling->seed =
      fields.Integer("seed", INT64_MIN, INT64_MAX, &seed) ? static_cast<uint64_t>(seed) : context.fresh_seed;
  ReadLogitBias(n_vocab, fields, sampling);
  ReadLogprobs(endpoint, fields, sampling);
}

// n, best_of and echo.
void ReadChoices(Endpoint endpoint, FieldReader& fields, ParsedRequest* out) {
  int64_t n = 1;
  fields.Integer("n", 1, kMaxChoices, &n);
  out->n = static_cast<uint32_t>(n);
  int64_t best_of = n;
  if (fields.Integer("best_of", 1, INT32_MAX, &best_of) && best_of != n) {
    fields.Fail("best_of", "is not supported except as the value of n", "unsupported_parameter");
  }
  bool echo = false;
  if (!fields.Boolean("echo", &echo) || !echo) return;
  if (endpoint == Endpoint::kChatCompletions) {
    fields.Fail("echo", "is not supported except as false", "unsupported_parameter");
  } else if (out->generation.sampling.logprobs) {
    fields.Fail("echo", "is not supported together with logprobs: the prompt's are not computed",
                "unsupported_parameter");
  }
  out->echo = fields.ok();
}

void ReadStreaming(FieldReader& fields, ParsedRequest* out) {
  fields.Boolean("stream", &out->stream);
  const Json* options = fields.Find("stream_options");
  if (options == nullptr || !fields.ok()) return;
  if (!options->is_object()) {
    fields.Fail("stream_options", fmt::format("is {}, must be an object", JsonKind(*options)));
  } else if (!out->stream) {
    fields.Fail("stream_options", "is only allowed when stream is true");
  } else {
    FieldReader nested(*options, "stream_options.");
    nested.Boolean("include_usage", &out->include_usage);
    fields.Adopt(nested.error());
  }
}

// Ids that end the generation: the vocabulary's and the client's.
void ReadStopIds(const ServedModel& model, FieldReader& fields, GenerationRequest* request) {
  request->stop_ids = model.tokenizer->stop_ids();
  const Json* ids = fields.Find("stop_token_ids");
  if (ids == nullptr) return;
  bool valid = ids->is_array() && ids->size() <= kMaxStopTokenIds;
  for (size_t i = 0; valid && i < ids->size(); ++i) {
    const Json& id = (*ids)[i];
    valid = id.is_number_unsigned() && id.get<uint64_t>() < model.tokenizer->n_vocab();
    if (valid) request->stop_ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  if (!valid) {
    fields.Fail("stop_token_ids", fmt::format("must be an array of at most {} token ids in [0, {})",
                                              kMaxStopTokenIds, model.tokenizer->n_vocab()));
  }
}

void ReadLength(Endpoint endpoint, const ServedModel& model, FieldReader& fields,
                GenerationRequest* request) {
  int64_t max_tokens = endpoint == Endpoint::kCompletions ? kDefaultCompletionTokens : 0;
  fields.Integer("max_tokens", 1, model.n_ctx, &max_tokens);
  fields.Integer("max_completion_tokens", 1, model.n_ctx, &max_tokens);  // the newer name wins
  int64_t min_tokens = 0;
  if (fields.Integer("min_tokens", 0, model.n_ctx, &min_tokens) && max_tokens != 0 &&
      min_tokens > max_tokens) {
    fields.Fail("min_tokens",
                fmt::format("is {}, allowed is at most max_tokens ({})", min_tokens, max_tokens));
  }
  request->max_tokens = static_cast<uint32_t>(max_tokens);
  request->sampling.min_tokens = static_cast<uint32_t>(min_tokens);
  fields.Boolean("ignore_eos", &request->ignore_eos);
}

std::optional<ApiError> FitToContext(Endpoint endpoint, const ServedModel& model,
                                     GenerationRequest* request) {
  const size_t n = request->prompt.size();
  if (n >= model.n_ctx) {
    return ApiError{
        400,
        fmt::format("the prompt has {} tokens, the context holds {} and one must be left for the answer", n,
                    model.n_ctx),
        endpoint == Endpoint::kChatCompletions ? "messages" : "prompt", "context_length_exceeded"};
  }
  const uint32_t room = model.n_ctx - static_cast<uint32_t>(n);
  if (request->max_tokens > room) request->max_tokens = room;
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ParseRequest(Endpoint endpoint, std::string_view text, const ParseContext& context,
                                     ParsedRequest* out) {
  Json body;
  if (auto error = ParseJsonObject(text, &body)) return error;
  return ParseBody(endpoint, body, context, out);
}

std::optional<ApiError> ParseBody(Endpoint endpoint, const Json& body, const ParseContext& context,
                                  ParsedRequest* out) {
  out->endpoint = endpoint;
  FieldReader fields(body);
  ReadModel(context.model, fields);
  Refuse(UnsupportedFields(), fields);
  if (endpoint == Endpoint::kCompletions) Refuse(ChatFields(), fields);
  ReadStreaming(fields, out);
  ReadSampling(endpoint, context, fields, &out->generation.sampling);
  ReadChoices(endpoint, fields, out);
  ReadStop(fields, &out->stop);
  ReadStopIds(context.model, fields, &out->generation);
  ReadLength(endpoint, context.model, fields, &out->generation);
  if (!fields.ok()) return fields.error();
  if (const Json* format = fields.Find("response_format"); format != nullptr) {
    if (auto error = ReadResponseFormat(*format, context.model, &out->generation.constraint)) return error;
  }

  GenerationRequest& request = out->generation;
  request.sampling.stop_ids = request.stop_ids;
  // The prompt last: it costs the most.
  auto error = endpoint == Endpoint::kChatCompletions ? ReadChatPrompt(body, context, out)
                                                      : ReadCompletionPrompt(body, context, &request.prompt);
  if (out->echo && !error.has_value()) out->before = context.model.tokenizer->Decode(request.prompt, false);
  if (error.has_value()) return error;
  return FitToContext(endpoint, context.model, &request);
}

}  // namespace spillway::gateway
