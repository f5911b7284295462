// Goal: tools reach the template as it wants them, and calls, reasoning and choices come back in OpenAI's
// form. Method: a template that prints what it is given, a backend that says what a model would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/http/api_fixture.h"

namespace spillway::gateway {
namespace {

using test::Json;
using ::testing::HasSubstr;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kCall[] = "Hm.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";

class ToolCalls : public test::ApiFixture {
 protected:
  void SetUp() override { Serve(test::kToolTemplate); }
  static Json Request(const Json& more = Json::object()) {
    Json body =
        Json::parse(R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":
        {"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}}]})");
    for (const auto& [key, value] : more.items()) body[key] = value;
    return body;
  }
};

TEST_F(ToolCalls, ToolsKeepTheirOrderInTheTemplate) {
  Say("ok");
  PostJson(kChat, Request());
  EXPECT_THAT(Prompt(1), HasSubstr(R"({"type": "function", "function": {"name": "f", "description": "d", )"));
}

TEST_F(ToolCalls, ACallIsAnAnswer) {
  Say(kCall);
  const Json choice = PostJson(kChat, Request())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Hm.");
  const Json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["id"].get<std::string>().size(), 24u);
  EXPECT_EQ(call["function"]["name"], "f");
  EXPECT_EQ(call["function"]["arguments"], R"({"x": 1})");
}

TEST_F(ToolCalls, AStreamHasTheNameFirstAndNoMarker) {
  Say(kCall);
  const auto response = Post(kChat, Request({{"stream", true}}));
  EXPECT_EQ(response.body.find("tool_call>"), std::string::npos);
  std::string content, arguments, finish;
  int named = 0;
  for (const Json& chunk : Objects(response.body)) {
    const Json& choice = chunk["choices"][0];
    const Json& delta = choice["delta"];
    if (delta.contains("content")) content += delta["content"].get<std::string>();
    if (choice["finish_reason"].is_string()) finish = choice["finish_reason"];
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    named += call.contains("id") ? 1 : 0;
    EXPECT_TRUE(!call.contains("id") || arguments.empty());
    arguments += call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(content, "Hm.");
  EXPECT_EQ(named, 1);
  EXPECT_EQ(arguments, R"({"x": 1})");
  EXPECT_EQ(finish, "tool_calls");
}

TEST_F(ToolCalls, CallsAndAnswersGoBackThroughTheTemplate) {
  Say("ok");
  PostJson(kChat, Json::parse(R"({"messages":[{"role":"user","content":"hi"},
      {"role":"assistant","content":null,"reasoning_content":"so","tool_calls":[{"id":"c1","type":"function",
       "function":{"name":"f","arguments":"{\"b\": 1, \"a\": \"x\"}"}}]},
      {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"2"}]}]})"));
  EXPECT_THAT(Prompt(1),
              HasSubstr("[assistant]<think>so</think><tool_call>f {\"b\": 1, \"a\": \"x\"}</tool_call>\n"
                        "[tool]2\n[assistant]"));
}

TEST_F(ToolCalls, ATemplateThatWantsTextGetsText) {
  Serve(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.arguments }}"
      "{% endfor %}{{ m.content }}{% endfor %}");
  Say("ok");
  for (const char* arguments : {R"("{\"x\": 1}")", R"({"x": 1})"}) {
    Json body =
        Json::parse(R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]})");
    body["messages"][0]["tool_calls"][0]["function"]["arguments"] = Json::parse(arguments);
    PostJson(kChat, body);
  }
  EXPECT_EQ(Prompt(1), "<tool_call>{\"x\": 1}");
  EXPECT_EQ(Prompt(2), "<tool_call>{\"x\":1}");
}

TEST_F(ToolCalls, AChoiceOfTheClientIsMadeForTheModel) {
  Say("{\"x\": 1}}\n</tool_call>");
  const Json named = {{"type", "function"}, {"function", {{"name", "f"}}}};
  for (const Json& choice : {Json("required"), named}) {
    const Json answer = PostJson(kChat, Request({{"tool_choice", choice}}))["choices"][0];
    EXPECT_EQ(answer["message"]["tool_calls"][0]["function"]["arguments"], R"({"x": 1})");
    EXPECT_TRUE(answer["message"]["content"].is_null());
  }
  EXPECT_THAT(Prompt(1), HasSubstr("[assistant]<tool_call>\n{\"name\": \"f\", \"arguments\": "));
  Say("<tool_call>");
  const Json none = PostJson(kChat, Request({{"tool_choice", "none"}}))["choices"][0];
  EXPECT_EQ(none["message"]["content"], "<tool_call>");
  EXPECT_EQ(Prompt(3).find("description"), std::string::npos);
}

TEST_F(ToolCalls, BadToolsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"tools", R"({"tools":5})"},
      {"tools[0]", R"({"tools":[5]})"},
      {"tools[0].function", R"({"tools":[{"type":"function"}]})"},
      {"tools[0].function.name", R"({"tools":[{"type":"function","function":{"name":"a b"}}]})"},
      {"tools[0].type", R"({"tools":[{"type":"web","function":{"name":"a"}}]})"},
      {"tools[0].function.parameters", R"({"tools":[{"function":{"name":"a","parameters":5}}]})"},
      {"tool_choice", R"({"tool_choice":"maybe"})"},
      {"tool_choice", R"({"tool_choice":{"function":{"name":"g"}}})"},
      {"tool_choice", R"({"tools":[],"tool_choice":"required"})"},
      {"messages[0].tool_calls[0].function.arguments",
       R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}]})"},
      {"reasoning_effort", R"({"reasoning_effort":"high"})"},
  };
  for (const auto& [param, more] : cases) {
    const auto response = Post(kChat, Request(Json::parse(more)));
    EXPECT_EQ(response.status, 400) << more;
    EXPECT_EQ(Json::parse(response.body)["error"]["param"], param) << response.body;
  }
  Serve("{{ messages[0].content }}");
  const auto response = Post(kChat, Request());
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("Hermes"));
}

TEST_F(ToolCalls, ReasoningIsApart) {
  Say("<think>\nLet me.\n</think>\n\nFour");
  Json message = PostJson(kChat, Request())["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Four");
  EXPECT_EQ(message["reasoning_content"], "Let me.");
  Say("Let me.</think>Four");
  const Json opened = Request({{"chat_template_kwargs", {{"enable_thinking", true}}}, {"stream", true}});
  std::string reasoning, content;
  for (const Json& chunk : Objects(Post(kChat, opened).body)) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (delta.contains("reasoning_content")) reasoning += delta["reasoning_content"].get<std::string>();
    if (delta.contains("content")) content += delta["content"].get<std::string>();
  }
  EXPECT_EQ(reasoning, "Let me.");
  EXPECT_EQ(content, "Four");
  Say("never ends", FinishReason::kLength);
  const Json choice =
      PostJson(kChat, Request({{"chat_template_kwargs", {{"enable_thinking", true}}}}))["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "");
  EXPECT_EQ(choice["message"]["reasoning_content"], "never ends");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST_F(ToolCalls, EveryChoiceDrawsForItself) {
  Say("hi");
  Json answer = PostJson(kChat, Request({{"n", 3}}));
  ASSERT_EQ(answer["choices"].size(), 3u);
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 9);
  EXPECT_EQ(backend_.request(3).sampling.choice, 2u);
  EXPECT_EQ(backend_.request(3).sampling.seed, backend_.request(1).sampling.seed);
  const auto stream = Post("/v1/completions", {{"prompt", "a"}, {"n", 2}, {"stream", true}, {"echo", true}});
  std::string texts[2];
  int finished = 0;
  for (const Json& chunk : Objects(stream.body)) {
    for (const Json& choice : chunk["choices"]) {
      texts[choice["index"].get<int>()] += choice["text"].get<std::string>();
      finished += choice["finish_reason"].is_string() ? 1 : 0;
    }
  }
  EXPECT_EQ(texts[0], "ahi");
  EXPECT_EQ(texts[1], "ahi");
  EXPECT_EQ(finished, 2);
  for (const Json& more :
       {Json{{"echo", true}, {"logprobs", 1}}, Json{{"suffix", "x"}}, Json{{"best_of", 2}}}) {
    Json body = {{"prompt", "a"}};
    body.update(more);
    const auto refused = Post("/v1/completions", body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(Json::parse(refused.body)["error"]["param"], more.items().begin().key());
  }
}

TEST_F(ToolCalls, TextEndpointsShowWhatTheModelReads) {
  EXPECT_EQ(PostJson("/tokenize", {{"content", "a<|im_end|>"}})["tokens"], Json::parse("[97,258]"));
  EXPECT_EQ(PostJson("/tokenize", {{"content", "a<"}, {"with_pieces", true}})["tokens"],
            Json::parse(R"([{"id":97,"piece":"a"},{"id":60,"piece":"<"}])"));
  EXPECT_EQ(PostJson("/tokenize", {{"content", {"a", 258, "b"}}})["tokens"], Json::parse("[97,258,98]"));
  EXPECT_EQ(PostJson("/detokenize", {{"tokens", {97, 258}}})["content"], "a<|im_end|>");
  EXPECT_EQ(
      PostJson("/apply-template", Json::parse(R"({"messages":[{"role":"user","content":"hi"}]})"))["prompt"],
      "[user]hi\n[assistant]");
  EXPECT_EQ(Post("/tokenize", {{"content", 5.5}}).status, 400);
  EXPECT_EQ(Post("/tokenize", {{"text", "a"}}).status, 400);
  EXPECT_EQ(Post("/tokenize", {{"content", std::string((1 << 20) + 1, 'a')}}).status, 400);
  EXPECT_EQ(Post("/detokenize", {{"tokens", {97, 260}}}).status, 400);
  EXPECT_EQ(Post("/detokenize", {{"tokens", "a"}}).status, 400);
  EXPECT_EQ(Post("/apply-template", Json::object()).status, 400);
}

}  // namespace
}  // namespace spillway::gateway
