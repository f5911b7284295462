#include "gateway/http/served_model.h"

#include <algorithm>

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

// A template that prints an object with Python's quotes, or fails on it, was written for text.
bool WantsTextArguments(const ChatTemplate& chat_template) {
  const auto render = [&](const Json& arguments) {
    ChatTemplateInput input;
    const Json call = {{"id", "abcdefghi"},
                       {"type", "function"},
                       {"function", {{"name", "probe"}, {"arguments", arguments}}}};
    input.messages.push_back({{"role", "user"}, {"content", "probe"}});
    input.messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}});
    auto text = chat_template.Render(input);
    return text.ok() ? *text : "";
  };
  const std::string from_object = render({{"probed", "value"}});
  if (!from_object.empty() && from_object.find("'probed'") == std::string::npos) return false;
  return render(R"({"probed": "value"})").find("{\"probed\"") != std::string::npos;
}

}  // namespace

bool ServedModel::Answers(const std::string& name) const {
  constexpr std::string_view kLatest = ":latest";  // the tag that Ollama's clients add
  const auto is = [&](std::string_view wanted) {
    return wanted == id || std::find(aliases.begin(), aliases.end(), wanted) != aliases.end();
  };
  if (name.empty() || is(name)) return true;
  const std::string_view view = name;
  return view.size() > kLatest.size() && view.substr(view.size() - kLatest.size()) == kLatest &&
         is(view.substr(0, view.size() - kLatest.size()));
}

void ServedModel::ReadTemplate(const std::string& text) {
  template_text = text;
  if (chat_template == nullptr) return;
  format = ChooseOutputFormat(text);
  for (const std::string_view marker : format.Markers()) {
    const std::optional<int32_t> token = tokenizer->FindToken(marker);
    if (token.has_value() && tokenizer->IsControl(*token)) marker_tokens.push_back(*token);
  }
  text_arguments = WantsTextArguments(*chat_template);
}

}  // namespace spillway::gateway
