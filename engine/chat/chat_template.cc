// The public face: a parsed template, and the names transformers gives to the templates it renders.
#include "engine/chat/chat_template.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/chat/builtins.h"
#include "engine/chat/interpreter.h"
#include "engine/chat/parser.h"
#include "engine/chat/value_text.h"

namespace spillway {

struct ChatTemplate::Impl {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string_view source) {
  auto impl = std::make_unique<Impl>();
  SPILLWAY_ASSIGN_OR_RETURN(impl->block, jinja::Parse(source));
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

absl::StatusOr<std::string> ChatTemplate::Render(const ChatTemplateInput& input) const {
  jinja::Context context;
  context.now_unix_seconds = input.now_unix_seconds;
  context.line = 0;
  const auto globals = std::make_shared<jinja::Scope>();
  auto& names = globals->names;
  jinja::AddGlobalFunctions(names);
  names["messages"] = jinja::FromJson(context, input.messages);
  names["tools"] = jinja::FromJson(context, input.tools);
  names["documents"] = jinja::Value(jinja::None{});
  names["add_generation_prompt"] = jinja::Value(input.add_generation_prompt);
  names["bos_token"] = jinja::Value(input.bos_token);
  names["eos_token"] = jinja::Value(input.eos_token);
  if (input.extra.is_object()) {
    for (const auto& [name, value] : input.extra.items()) names[name] = jinja::FromJson(context, value);
  }
  std::string out;
  if (!context.failed()) out = jinja::Interpreter(context, globals).Run(impl_->block);
  if (!context.failed()) return out;
  if (context.error_line() == 0) return InvalidArgument("chat template: {}", context.message());
  return InvalidArgument("chat template, line {}: {}", context.error_line(), context.message());
}

}  // namespace spillway
