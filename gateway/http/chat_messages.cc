#include "gateway/http/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace spillway::gateway {
namespace {

constexpr size_t kMaxToolNameBytes = 128;
constexpr size_t kMaxCallsInMessage = 128;

// OpenAI's newer name for system messages; published templates know only the older one.
constexpr std::string_view kDeveloperRole = "developer";

std::optional<ApiError> NotAnObject(const std::string& where, const Json& value) {
  return InvalidParam(where, fmt::format("{} is {}, must be an object", where, JsonKind(value)));
}

std::optional<ApiError> ReadPart(const Json& part, const std::string& where, std::string* text) {
  if (!part.is_object()) return NotAnObject(where, part);
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
std::optional<ApiError> ReadContent(const Json& message, const std::string& where, bool required,
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

// OpenAI's clients send arguments as text, Ollama's as an object; a template takes one of them.
std::optional<ApiError> ConvertArguments(const std::string& where, bool as_text, Json* arguments) {
  Json object = *arguments;
  if (arguments->is_null()) object = Json::object();
  if (arguments->is_string()) {
    const std::string& text = arguments->get_ref<const std::string&>();
    const bool blank = text.find_first_not_of(" \n\r\t") == std::string::npos;
    object = blank ? Json::object() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
  if (!object.is_object()) {
    return InvalidParam(where, where + " must be a JSON object, or the text of one");
  }
  if (!as_text) {
    *arguments = std::move(object);
  } else if (!arguments->is_string()) {
    *arguments = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return std::nullopt;
}

std::optional<ApiError> ReadCall(const Json& call, const std::string& where, bool as_text, Json* out) {
  if (!call.is_object()) return NotAnObject(where, call);
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) {
    return InvalidParam(where + ".function", where + ".function must be an object with name and arguments");
  }
  FieldReader fields(*function, where + ".function.");
  std::string name;
  if (!fields.String("name", &name) && fields.ok()) fields.Fail("name", "is missing");
  if (!fields.ok()) return fields.error();
  Json arguments = function->contains("arguments") ? function->at("arguments") : Json();
  if (auto error = ConvertArguments(where + ".function.arguments", as_text, &arguments)) return error;
  std::string id;
  FieldReader outer(call, where + ".");
  if (outer.String("id", &id)) (*out)["id"] = id;
  if (!outer.ok()) return outer.error();
  (*out)["type"] = "function";
  (*out)["function"] = Json{{"name", std::move(name)}, {"arguments", std::move(arguments)}};
  return std::nullopt;
}

std::optional<ApiError> ReadCalls(const Json& calls, const std::string& where, bool as_text, Json* message) {
  if (!calls.is_array() || calls.size() > kMaxCallsInMessage) {
    return InvalidParam(where,
                        fmt::format("{} must be an array of at most {} calls", where, kMaxCallsInMessage));
  }
  if (calls.empty()) return std::nullopt;
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Json call = Json::object();
    if (auto error = ReadCall(calls[i], fmt::format("{}[{}]", where, i), as_text, &call)) return error;
    list.push_back(std::move(call));
  }
  (*message)["tool_calls"] = std::move(list);
  return std::nullopt;
}

bool IsRole(std::string_view role) {
  return role == "system" || role == "user" || role == "assistant" || role == "tool";
}

std::optional<ApiError> ReadMessage(const Json& message, const std::string& where, const ServedModel& model,
                                    Json* out) {
  if (!message.is_object()) return NotAnObject(where, message);
  FieldReader fields(message, where + ".");
  std::string role;
  if (!fields.String("role", &role) && fields.ok()) fields.Fail("role", "is missing");
  if (role == kDeveloperRole) role = "system";
  if (fields.ok() && !IsRole(role)) {
    fields.Fail("role", fmt::format("is '{}', allowed are system, developer, user, assistant and tool",
                                    Shortened(role)));
  }
  if (const Json* call = fields.Find("function_call"); call != nullptr && !call->empty()) {
    fields.Fail("function_call", "is not supported, use tool_calls", "unsupported_parameter");
  }
  std::string text;
  fields.Adopt(ReadContent(message, where + ".content", role != "assistant", &text));
  if (!fields.ok()) return fields.error();
  *out = Json{{"role", role}, {"content", std::move(text)}};
  if (role == "assistant") {
    // The names that templates read it by.
    std::string reasoning;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) fields.String(name, &reasoning);
    if (!reasoning.empty()) (*out)["reasoning_content"] = reasoning;
    if (!reasoning.empty() && model.format.harmony) (*out)["thinking"] = reasoning;
    if (const Json* calls = fields.Find("tool_calls"); calls != nullptr) {
      fields.Adopt(ReadCalls(*calls, where + ".tool_calls", model.text_arguments, out));
    }
  }
  std::string value;
  if (role == "tool" && fields.String("tool_call_id", &value)) (*out)["tool_call_id"] = value;
  for (const char* name : {"name", "tool_name"}) {  // tool_name: Ollama's
    if (fields.String(name, &value)) (*out)["name"] = value;
  }
  return fields.error();
}

bool IsToolName(std::string_view name) {
  const auto valid = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxToolNameBytes && std::all_of(name.begin(), name.end(), valid);
}

std::optional<ApiError> CheckTool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return NotAnObject(where, tool);
  FieldReader fields(tool, where + ".");
  std::string type = "function";
  fields.String("type", &type);
  if (type != "function") {
    fields.Fail("type", fmt::format("is '{}', allowed is function", Shortened(type)), "unsupported_value");
  }
  if (!fields.ok()) return fields.error();
  const Json* function = fields.Find("function");
  if (function == nullptr || !function->is_object()) {
    return InvalidParam(where + ".function", where + ".function must be an object with a name");
  }
  FieldReader inner(*function, where + ".function.");
  std::string name, description;
  if (!inner.String("name", &name) && inner.ok()) inner.Fail("name", "is missing");
  if (inner.ok() && !IsToolName(name)) {
    inner.Fail("name", fmt::format("must have 1 to {} letters, digits, '_', '-' or '.'", kMaxToolNameBytes));
  }
  inner.String("description", &description);
  const Json* parameters = inner.Find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    inner.Fail("parameters", fmt::format("is {}, must be a JSON schema", JsonKind(*parameters)));
  }
  return inner.error();
}

// The only function that may be called; "" = the model decides which.
enum class ToolChoice : uint8_t { kNone, kAuto, kRequired };
ToolChoice ReadToolChoice(FieldReader& fields, std::string* named) {
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr || *choice == "auto") return ToolChoice::kAuto;
  if (*choice == "none") return ToolChoice::kNone;
  if (*choice == "required" || *choice == "any") return ToolChoice::kRequired;
  if (choice->is_object() && choice->contains("function")) {
    const Json& function = choice->at("function");
    if (function.is_object() && function.contains("name") && function["name"].is_string()) {
      *named = function["name"].get<std::string>();
      return ToolChoice::kRequired;
    }
  }
  fields.Fail("tool_choice",
              R"(must be "none", "auto", "required" or {"type":"function","function":{"name":…}})");
  return ToolChoice::kAuto;
}

// Also fills in the type, which OpenAI's clients may leave out and templates print.
void ReadToolList(const Json& list, FieldReader& fields, Json* tools) {
  if (!list.is_array() || list.size() > kMaxTools) {
    return fields.Fail("tools", fmt::format("must be an array of at most {} functions", kMaxTools));
  }
  *tools = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    fields.Adopt(CheckTool(list[i], fmt::format("tools[{}]", i)));
    if (!fields.ok()) return;
    tools->push_back(list[i]);
    if (!list[i].contains("type"))
      tools->back() = Json{{"type", "function"}, {"function", list[i]["function"]}};
  }
}

}  // namespace

std::optional<ApiError> ReadMessages(const Json& body, const ServedModel& model, Json* messages) {
  const auto given = body.find("messages");
  if (given == body.end() || given->is_null()) return InvalidParam("messages", "messages is missing");
  if (!given->is_array() || given->empty()) {
    return InvalidParam("messages", "messages must be an array of at least one message");
  }
  *messages = Json::array();
  for (size_t i = 0; i < given->size(); ++i) {
    Json message;
    if (auto error = ReadMessage((*given)[i], fmt::format("messages[{}]", i), model, &message)) return error;
    messages->push_back(std::move(message));
  }
  return std::nullopt;
}

void ReadTools(const ServedModel& model, FieldReader& fields, ParsedRequest* out, Json* tools) {
  std::string named;
  const ToolChoice choice = ReadToolChoice(fields, &named);
  fields.Boolean("parallel_tool_calls", &out->output.parallel);
  const Json* list = fields.Find("tools");
  const bool any = list != nullptr && !list->empty();
  // Tools that must not be called need no support: some clients always send their list.
  if (!fields.ok() || choice == ToolChoice::kNone || (!any && choice == ToolChoice::kAuto)) return;
  if (!any) return fields.Fail("tool_choice", "asks for a call, but there are no tools");
  Json checked;
  ReadToolList(*list, fields, &checked);
  if (!fields.ok()) return;
  if (model.format.calls == nullptr && !model.format.harmony) {
    return fields.Fail("tools",
                       fmt::format("is not supported by this model: its chat template has no tool calls in a "
                                   "known style ({}); send tool_choice \"none\" to answer without",
                                   KnownCallStyles()),
                       "unsupported_parameter");
  }
  out->tools = ToolSet(checked);
  out->output.calls = true;
  if (choice == ToolChoice::kRequired) {
    if (!named.empty() && !out->tools.Has(named)) {
      return fields.Fail("tool_choice",
                         fmt::format("names '{}', which is not among tools", Shortened(named)));
    }
    if (checked.size() == 1) named = checked[0]["function"]["name"].get<std::string>();
    out->forced = ForcedCall(model.format, named);
  }
  *tools = std::move(checked);
}

}  // namespace spillway::gateway
