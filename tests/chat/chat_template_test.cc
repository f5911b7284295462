// What the gateway relies on: the variables a template sees, errors, and use from many threads.
#include "engine/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/base/status.h"

namespace spillway {
namespace {

// The shape of ChatML templates with a default system prompt.
constexpr const char* kChatMl =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe brief<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

ChatTemplateInput Hello() {
  ChatTemplateInput input;
  input.messages = {{{"role", "user"}, {"content", "Hi"}}};
  return input;
}

std::unique_ptr<ChatTemplate> MustParse(std::string_view source) {
  auto chat = ChatTemplate::Parse(source);
  EXPECT_TRUE(chat.ok()) << chat.status();
  return chat.ok() ? *std::move(chat) : nullptr;
}

TEST(ChatTemplate, RendersChatMl) {
  const auto chat = MustParse(kChatMl);
  ChatTemplateInput input = Hello();
  EXPECT_EQ(
      *chat->Render(input),
      "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  input.add_generation_prompt = false;
  input.messages[0]["role"] = "system";
  EXPECT_EQ(*chat->Render(input), "<|im_start|>system\nHi<|im_end|>\n");
}

TEST(ChatTemplate, GivesTheTemplateItsVariables) {
  const auto chat = MustParse(
      "{{ bos_token }}{{ eos_token }}{{ tools }}{{ thinking }}{{ strftime_now('%Y') }}{{ "
      "add_generation_prompt }}");
  ChatTemplateInput input;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.extra = {{"thinking", "yes"}};
  EXPECT_EQ(*chat->Render(input), "<s></s>Noneyes1970True");
  input.tools = {1};
  EXPECT_THAT(*chat->Render(input), ::testing::HasSubstr("[1]"));
}

TEST(ChatTemplate, ReportsWhatTheTemplateRaises) {
  const auto status = MustParse("{% if messages %}\n{{ raise_exception('Roles must alternate') }}{% endif %}")
                          ->Render(Hello())
                          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status), "chat template, line 2: Roles must alternate");
}

TEST(ChatTemplate, RefusesMessagesOfTheWrongShape) {
  ChatTemplateInput input;
  input.messages = {{{"role", "user"}}};  // no content
  EXPECT_FALSE(MustParse(kChatMl)->Render(input).ok());
  input.messages = 5;
  EXPECT_FALSE(MustParse(kChatMl)->Render(input).ok());
  nlohmann::ordered_json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = nlohmann::ordered_json::array({deep});
  input.messages = deep;
  EXPECT_THAT(MessageOf(MustParse(kChatMl)->Render(input).status()), ::testing::HasSubstr("nests too deep"));
}

TEST(ChatTemplate, RendersLongConversations) {
  ChatTemplateInput input;
  for (int i = 0; i < 2000; ++i)
    input.messages.push_back({{"role", "user"}, {"content", std::string(1000, 'x')}});
  const auto rendered = MustParse(kChatMl)->Render(input);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_GT(rendered->size(), 2'000'000u);
}

TEST(ChatTemplate, IsThreadSafe) {
  const auto chat = MustParse(kChatMl);
  const std::string expected = *chat->Render(Hello());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) EXPECT_EQ(*chat->Render(Hello()), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace spillway
