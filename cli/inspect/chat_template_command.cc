// `spillway chat-template`: renders a model's chat template, or one from a file, for a JSON request on
// standard input. What a client's messages become before they are tokenized.
#include <time.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/inspect/standard_input.h"
#include "engine/base/status.h"
#include "engine/chat/chat_template.h"
#include "engine/gguf/reader.h"
#include "engine/tokenizer/tokenizer.h"

namespace spillway::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ChatTemplateOptions {
  std::string model;
  std::string template_file;
};

// A template and the texts of the tokens it may name.
struct Source {
  std::string text;
  std::string bos_token;
  std::string eos_token;
};

absl::StatusOr<Source> ReadSource(const ChatTemplateOptions& options) {
  Source source;
  if (!options.template_file.empty()) {
    std::ifstream stream(options.template_file, std::ios::binary);
    source.text.assign((std::istreambuf_iterator<char>(stream)), {});
    if (!stream) return NotFound("--template {}: cannot be read", options.template_file);
    return source;
  }
  SPILLWAY_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(options.model));
  SPILLWAY_ASSIGN_OR_RETURN(const auto text, file->GetString("tokenizer.chat_template"));
  if (!text) return NotFound("{}: holds no tokenizer.chat_template", options.model);
  source.text = *text;
  // Without a tokenizer the texts stay empty; a template that needs them can be given them in the request.
  if (const auto tokenizer = Tokenizer::Load(*file); tokenizer.ok()) {
    if (const auto bos = (*tokenizer)->bos()) source.bos_token = (*tokenizer)->TokenBytes(*bos, true);
    if (const auto eos = (*tokenizer)->eos()) source.eos_token = (*tokenizer)->TokenBytes(*eos, true);
  }
  return source;
}

// Unix seconds, or "2026-11-30T12:00:00" taken as UTC.
absl::StatusOr<int64_t> ParseNow(const Json& now) {
  if (now.is_number_integer()) return now.get<int64_t>();
  if (now.is_string()) {
    std::tm time = {};
    const std::string text = now.get<std::string>();
    const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
    if (end != nullptr && (*end == '\0' || std::string_view(end) == "Z")) return timegm(&time);
  }
  return InvalidArgument("now is {}, neither unix seconds nor YYYY-MM-DDTHH:MM:SS", now.dump());
}

absl::Status TakeString(const Json& request, const char* key, std::string* target) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_string()) return InvalidArgument("{} is not a string", key);
  *target = found->get<std::string>();
  return absl::OkStatus();
}

// Fields the command itself reads; every other one becomes a variable of the template.
bool IsOwnField(const std::string& key) {
  return key == "messages" || key == "tools" || key == "add_generation_prompt" || key == "bos_token" ||
         key == "eos_token" || key == "now" || key == "case" || key == "expected" || key == "error";
}

absl::StatusOr<ChatTemplateInput> ParseRequest(const std::string& text, const Source& source) {
  const Json request = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object()) return InvalidArgument("standard input is not one JSON object");
  ChatTemplateInput input;
  input.bos_token = source.bos_token;
  input.eos_token = source.eos_token;
  input.now_unix_seconds = time(nullptr);
  const auto messages = request.find("messages");
  if (messages == request.end() || !messages->is_array()) return InvalidArgument("messages is not an array");
  input.messages = *messages;
  SPILLWAY_RETURN_IF_ERROR(TakeString(request, "bos_token", &input.bos_token));
  SPILLWAY_RETURN_IF_ERROR(TakeString(request, "eos_token", &input.eos_token));
  if (const auto prompt = request.find("add_generation_prompt"); prompt != request.end()) {
    if (!prompt->is_boolean()) return InvalidArgument("add_generation_prompt is neither true nor false");
    input.add_generation_prompt = prompt->get<bool>();
  }
  if (const auto now = request.find("now"); now != request.end() && !now->is_null()) {
    SPILLWAY_ASSIGN_OR_RETURN(input.now_unix_seconds, ParseNow(*now));
  }
  if (const auto tools = request.find("tools"); tools != request.end()) input.tools = *tools;
  for (const auto& [key, value] : request.items()) {
    if (!IsOwnField(key)) input.extra[key] = value;
  }
  return input;
}

int RunChatTemplate(const ChatTemplateOptions& options) {
  const auto source = ReadSource(options);
  if (!source.ok()) return FailWith(source.status());
  const auto chat = ChatTemplate::Parse(source->text);
  if (!chat.ok()) return Fail(kFailed, "chat template: " + MessageOf(chat.status()));
  const auto text = ReadStandardInput();
  if (!text.ok()) return FailWith(text.status());
  const auto input = ParseRequest(*text, *source);
  if (!input.ok()) return FailUsage(input.status());
  const auto rendered = (*chat)->Render(*input);
  if (!rendered.ok()) return Fail(kFailed, "chat template: " + MessageOf(rendered.status()));
  const absl::Status written = WriteStandardOutput(*rendered);
  return written.ok() ? kOk : FailWith(written);
}

}  // namespace

void AddChatTemplateCommand(CommandLine& line) {
  auto options = std::make_shared<ChatTemplateOptions>();
  line.AddCommand(
      "chat-template",
      "Render a chat template for a JSON request on standard input: messages, tools, add_generation_prompt, "
      "bos_token, eos_token, now",
      {{"-m,--model", &options->model, "GGUF file whose template is rendered"},
       {"--template", &options->template_file, "File with a Jinja template"}},
      [options] { return RunChatTemplate(*options); });
  line.RequireOne({"--model", "--template"});
}

}  // namespace spillway::cli
