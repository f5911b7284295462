// Published templates rendered as Python's jinja2 renders them, set up as transformers does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "engine/base/status.h"
#include "engine/chat/chat_template.h"
#include "tests/tokenizer/cases.h"

namespace spillway {
namespace {

// "2026-11-30T12:00:00", without a zone.
int64_t UnixSeconds(const std::string& text) {
  std::tm time = {};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time), nullptr) << text;
  return timegm(&time);
}

void CheckCase(const ChatTemplate& chat, const nlohmann::ordered_json& one) {
  ChatTemplateInput input;
  input.messages = one["messages"];
  if (one.contains("tools")) input.tools = one["tools"];
  input.add_generation_prompt = one["add_generation_prompt"].get<bool>();
  input.bos_token = one["bos_token"].get<std::string>();
  input.eos_token = one["eos_token"].get<std::string>();
  input.now_unix_seconds = UnixSeconds(one["now"].get<std::string>());
  const auto rendered = chat.Render(input);
  if (one.contains("expected")) {
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, one["expected"].get<std::string>());
    return;
  }
  ASSERT_FALSE(rendered.ok()) << *rendered;
  const std::string error = one["error"].get<std::string>();
  EXPECT_THAT(MessageOf(rendered.status()), ::testing::HasSubstr(error.substr(error.find(": ") + 2)));
}

class ChatTemplateGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(ChatTemplateGolden, RendersEveryCase) {
  SPILLWAY_REQUIRE_CASES(folder);
  const auto stem = folder / "chat-template" / GetParam();
  ASSERT_TRUE(std::filesystem::exists(stem.string() + ".jinja")) << stem;
  const auto chat = ChatTemplate::Parse(testing::ReadFile(stem.string() + ".jinja"));
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto cases = testing::ReadJson(stem.string() + ".json");
  ASSERT_TRUE(cases.is_array());
  ASSERT_FALSE(cases.empty());
  for (const auto& one : cases) {
    SCOPED_TRACE(one["case"].get<std::string>());
    CheckCase(**chat, one);
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatTemplateGolden,
                         ::testing::Values("HuggingFaceTB-SmolLM3-3B", "Qwen-Qwen2.5-7B-Instruct",
                                           "Qwen-Qwen3-0.6B", "Qwen3-Coder",
                                           "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "google-gemma-2-2b-it",
                                           "ibm-granite-granite-3.3-2B-Instruct",
                                           "meta-llama-Llama-3.1-8B-Instruct",
                                           "microsoft-Phi-3.5-mini-instruct",
                                           "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b"));

}  // namespace
}  // namespace spillway
