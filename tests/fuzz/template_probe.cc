#include "tests/fuzz/template_probe.h"

#include "engine/base/status.h"
#include "engine/chat/chat_template.h"

namespace spillway::test {
namespace {

ChatTemplateInput SmallConversation() {
  ChatTemplateInput input;
  input.messages = nlohmann::ordered_json::parse(
      R"([{"role":"system","content":" S'é\n"},{"role":"user","content":[{"type":"text","text":"a b"}]},
          {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x":1.5,"y":[true]}}}]}])");
  input.tools = nlohmann::ordered_json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"number"}}}}}])");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now_unix_seconds = 1'780'000'000;
  return input;
}

}  // namespace

std::string ProbeTemplate(std::string_view source) {
  const auto parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) {
    return MessageOf(parsed.status()).starts_with("chat template") ? "" : MessageOf(parsed.status());
  }
  static const auto* const input = new ChatTemplateInput(SmallConversation());
  const auto first = (*parsed)->Render(*input);
  if (!first.ok())
    return MessageOf(first.status()).starts_with("chat template") ? "" : MessageOf(first.status());
  constexpr size_t kMaxBytes = size_t{64} << 20;
  if (first->size() > kMaxBytes) return fmt::format("{} bytes rendered", first->size());
  if (first->size() > 4096) return "";
  const auto second = (*parsed)->Render(*input);
  return second.ok() && *second == *first ? "" : "two renderings differ";
}

}  // namespace spillway::test
