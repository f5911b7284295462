#include "gateway/http/response_format.h"

#include <fmt/format.h>

#include <string>

#include "engine/base/status.h"

namespace spillway::gateway {
namespace {

const Json& AnyObject() {
  static const auto* const schema = new Json{{"type", "object"}};
  return *schema;
}

std::optional<ApiError> CompileInto(const Json& schema, const std::string& param, const ServedModel& model,
                                    std::shared_ptr<grammar::Constraint>* constraint) {
  if (model.constraints == nullptr) return InvalidParam(param, param + " is not supported by this server");
  absl::StatusOr<std::shared_ptr<grammar::Constraint>> compiled = model.constraints->Compile(schema);
  if (!compiled.ok()) return InvalidParam(param, param + ": " + MessageOf(compiled.status()));
  *constraint = *std::move(compiled);
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ReadResponseFormat(const Json& format, const ServedModel& model,
                                           std::shared_ptr<grammar::Constraint>* constraint) {
  const std::string param = "response_format";
  const auto type = format.is_object() ? format.find("type") : format.end();
  if (!format.is_object() || type == format.end() || !type->is_string())
    return InvalidParam(param, "response_format must be an object with a type");
  if (*type == "text") return std::nullopt;
  if (*type == "json_object") {  // a schema beside it is llama.cpp's way
    return CompileInto(format.contains("schema") ? format["schema"] : AnyObject(), param, model, constraint);
  }
  if (*type != "json_schema") {
    return InvalidParam(
        param, fmt::format("response_format.type is '{}', allowed are text, json_object and json_schema",
                           type->get<std::string>().substr(0, 60)));
  }
  const auto named = format.find("json_schema");
  if (named == format.end() || !named->is_object() || !named->contains("schema"))
    return InvalidParam(param, "response_format.json_schema must be an object with a schema");
  return CompileInto((*named)["schema"], param, model, constraint);
}

}  // namespace spillway::gateway
