#include "gateway/http/text_endpoints.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "gateway/http/bounded_json.h"
#include "gateway/http/openai_prompt.h"

namespace spillway::gateway {
namespace {

HttpResponse JsonResponse(const Json& body) {
  HttpResponse response;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

HttpResponse Invalid(const char* param, std::string message) {
  return ErrorResponse(InvalidParam(param, std::move(message)));
}

bool IsTokenId(const Json& value, uint32_t n_vocab) {
  return value.is_number_unsigned() && value.get<uint64_t>() < n_vocab;
}

// Text is itself, what is no UTF-8 on its own its bytes.
Json PieceJson(const std::string& bytes) {
  if (IsValidUtf8(bytes)) return bytes;
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return list;
}

// A text, or texts and token ids one after the other.
std::optional<ApiError> ReadTokens(const Json& content, const Tokenizer& tokenizer, bool parse_special,
                                   std::vector<int32_t>* tokens) {
  const Json list = content.is_array() ? content : Json::array({content});
  size_t bytes = 0;
  for (const Json& part : list) {
    if (IsTokenId(part, tokenizer.n_vocab())) {
      tokens->push_back(static_cast<int32_t>(part.get<uint64_t>()));
      continue;
    }
    if (!part.is_string()) {
      return InvalidParam("content", fmt::format("content must be a string, or an array of strings and token "
                                                 "ids in [0, {})",
                                                 tokenizer.n_vocab()));
    }
    const std::string& text = part.get_ref<const std::string&>();
    bytes += text.size();
    if (bytes > kMaxTokenizeBytes) {
      return InvalidParam("content",
                          fmt::format("content is longer than the {} bytes allowed", kMaxTokenizeBytes));
    }
    const std::vector<int32_t> ids = tokenizer.Encode(text, parse_special);
    tokens->insert(tokens->end(), ids.begin(), ids.end());
  }
  return std::nullopt;
}

}  // namespace

HttpResponse Tokenize(std::string_view text, const ServedModel& model) {
  Json body;
  if (auto error = ParseJsonObject(text, &body)) return ErrorResponse(*error);
  bool add_special = false, parse_special = true, with_pieces = false;
  FieldReader fields(body);
  fields.Boolean("add_special", &add_special);
  fields.Boolean("parse_special", &parse_special);
  fields.Boolean("with_pieces", &with_pieces);
  const Json* content = fields.Find("content");
  if (fields.ok() && content == nullptr) fields.Fail("content", "is missing");
  if (!fields.ok()) return ErrorResponse(*fields.error());
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> tokens;
  if (add_special && tokenizer.add_bos() && tokenizer.bos().has_value()) tokens.push_back(*tokenizer.bos());
  if (auto error = ReadTokens(*content, tokenizer, parse_special, &tokens)) return ErrorResponse(*error);
  Json list = Json::array();
  for (const int32_t token : tokens) {
    if (with_pieces) {
      list.push_back({{"id", token}, {"piece", PieceJson(tokenizer.TokenBytes(token, /*special=*/true))}});
    } else {
      list.push_back(token);
    }
  }
  return JsonResponse({{"tokens", std::move(list)}});
}

HttpResponse Detokenize(std::string_view text, const ServedModel& model) {
  Json body;
  if (auto error = ParseJsonObject(text, &body)) return ErrorResponse(*error);
  const Tokenizer& tokenizer = *model.tokenizer;
  const auto given = body.find("tokens");
  if (given == body.end() || !given->is_array()) return Invalid("tokens", "tokens must be an array of ids");
  std::vector<int32_t> tokens;
  for (const Json& token : *given) {
    if (!IsTokenId(token, tokenizer.n_vocab())) {
      return Invalid("tokens", fmt::format("tokens: entry {} is not a token id in [0, {})", tokens.size(),
                                           tokenizer.n_vocab()));
    }
    tokens.push_back(static_cast<int32_t>(token.get<uint64_t>()));
  }
  return JsonResponse({{"content", tokenizer.Decode(tokens, /*special=*/true)}});
}

HttpResponse ApplyTemplate(std::string_view text, const ParseContext& context) {
  Json body;
  if (auto error = ParseJsonObject(text, &body)) return ErrorResponse(*error);
  ParsedRequest ignored;
  std::string prompt;
  if (auto error = RenderChat(body, context, &ignored, &prompt)) return ErrorResponse(*error);
  return JsonResponse({{"prompt", prompt + ignored.forced}});
}

}  // namespace spillway::gateway
