// Goal: Ollama's clients get the shapes they parse, and what is not supported is said. Method: as
// tool_calls_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/http/ollama_answer.h"
#include "tests/gateway/http/api_fixture.h"

namespace spillway::gateway {
namespace {

using test::Json;
using ::testing::HasSubstr;

class Ollama : public test::ApiFixture {
 protected:
  void SetUp() override { Serve(test::kToolTemplate); }
  static Json Chat(const Json& more = Json::object()) {
    Json body = Json::parse(R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":false})");
    for (const auto& [key, value] : more.items()) body[key] = value;
    return body;
  }
};

TEST_F(Ollama, SaysWhatItIs) {
  EXPECT_THAT(Get("/api/version")["version"].get<std::string>(),
              ::testing::MatchesRegex("[0-9]+.[0-9]+.[0-9]+.*"));
  const Json tags = Get("/api/tags")["models"];
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[0]["name"], "tiny:latest");
  EXPECT_EQ(tags[0]["details"]["parameter_size"], "134.50M");
  const Json ps = Get("/api/ps")["models"][0];
  EXPECT_EQ(ps["size"], 1000);
  EXPECT_EQ(ps["size_vram"], 0);
  EXPECT_EQ(ps["context_length"], test::kContext);
  const Json show = PostJson("/api/show", {{"model", "tiny:latest"}});
  EXPECT_EQ(show["capabilities"], Json::parse(R"(["completion","tools","thinking"])"));
  EXPECT_EQ(show["model_info"]["general.architecture"], "llama");
  EXPECT_EQ(Post("/api/show", {{"model", "other"}}).status, 404);
  EXPECT_EQ(Post("/api/show", Json::object()).status, 400);
  EXPECT_EQ(OllamaTime(1'700'000'000'000'000'007), "2023-11-14T22:13:20.000000007Z");
}

TEST_F(Ollama, ChatAnswersWholeAndInLines) {
  Say("<think>so</think>héy");
  const Json whole = PostJson("/api/chat", Chat());
  EXPECT_EQ(whole["model"], "tiny");
  EXPECT_EQ(whole["message"], Json::parse(R"({"role":"assistant","content":"héy","thinking":"so"})"));
  EXPECT_EQ(whole["done"], true);
  EXPECT_EQ(whole["done_reason"], "stop");
  EXPECT_EQ(whole["load_duration"], 500'000'000);
  EXPECT_EQ(whole["prompt_eval_duration"], 250'000'000);
  EXPECT_EQ(whole["eval_duration"], 2'000'000'000);
  EXPECT_EQ(whole["prompt_eval_count"], backend_.request(1).prompt.size());
  EXPECT_GT(whole["total_duration"], 0);
  const auto stream = Post("/api/chat", Chat({{"stream", nullptr}}));  // streams unless told otherwise
  EXPECT_THAT(stream.headers.at("content-type"), HasSubstr("ndjson"));
  std::string content, thinking;
  const std::vector<Json> lines = Objects(stream.body);
  for (const Json& line : lines) {
    content += line["message"]["content"].get<std::string>();
    if (line["message"].contains("thinking")) thinking += line["message"]["thinking"].get<std::string>();
    EXPECT_EQ(line["done"], &line == &lines.back());
  }
  EXPECT_EQ(content, "héy");
  EXPECT_EQ(thinking, "so");
  EXPECT_TRUE(lines.back().contains("eval_count"));
}

TEST_F(Ollama, CallsAreObjects) {
  Say("<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>");
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  const Json calls = Json::parse(R"([{"function":{"name":"f","arguments":{"x":1}}}])");
  EXPECT_EQ(PostJson("/api/chat", Chat({{"tools", tools}}))["message"]["tool_calls"], calls);
  const auto lines = Objects(Post("/api/chat", Chat({{"tools", tools}, {"stream", true}})).body);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["message"]["tool_calls"], calls);
  PostJson("/api/chat", Chat({{"messages", Json::parse(R"([{"role":"assistant","content":"","tool_calls":
      [{"function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","tool_name":"f","content":"2"}])")}}));
  EXPECT_THAT(Prompt(3), HasSubstr("<tool_call>f {\"x\": 1}</tool_call>\n[tool]2\n"));
}

TEST_F(Ollama, GenerateTakesATemplateOrNone) {
  Say("yes");
  EXPECT_EQ(PostJson("/api/generate",
                     {{"model", "tiny"}, {"prompt", "a"}, {"system", "s"}, {"stream", false}})["response"],
            "yes");
  EXPECT_EQ(Prompt(1), "[system]s\n[user]a\n[assistant]");
  PostJson("/api/generate", {{"model", "tiny"}, {"prompt", "a"}, {"raw", true}, {"stream", false}});
  EXPECT_EQ(Prompt(2), "a");
  EXPECT_EQ(backend_.request(2).max_tokens, test::kContext - 1);
  for (const char* path : {"/api/generate", "/api/chat"}) {
    const Json loaded = PostJson(path, {{"model", "tiny"}});
    EXPECT_EQ(loaded["done_reason"], "load");
    EXPECT_EQ(Post(path, {{"model", "tiny"}, {"keep_alive", 0}}).status, 400);
  }
  EXPECT_EQ(backend_.requests(), 2u);
}

TEST_F(Ollama, OptionsReachTheModel) {
  Say("yes");
  PostJson("/api/chat",
           Chat({{"options", Json::parse(R"({"temperature":0.5,"top_k":7,"top_p":0.5,"min_p":0.25,
      "repeat_penalty":1.5,"seed":9,"num_predict":5,"stop":["x"],"num_ctx":64,"presence_penalty":1})")}}));
  const GenerationRequest request = backend_.request(1);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 7u);
  EXPECT_EQ(request.sampling.min_p, 0.25f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.sampling.seed, 9u);
  EXPECT_EQ(request.max_tokens, 5u);
  PostJson("/api/chat", Chat({{"options", {{"num_predict", -1}, {"num_ctx", 64}}}}));
  EXPECT_EQ(backend_.request(2).max_tokens, 64 - backend_.request(2).prompt.size());
  EXPECT_EQ(backend_.request(2).sampling.temperature, 0.8f);
  EXPECT_EQ(backend_.request(2).sampling.top_k, 40u);
}

TEST_F(Ollama, WhatIsNotSupportedIsSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {"options.num_ctx", R"({"options":{"num_ctx":100000}})"},
      {"options.num_ctx", R"({"options":{"num_ctx":4}})"},
      {"options.temperature", R"({"options":{"temperature":3}})"},
      {"options.num_predict", R"({"options":{"num_predict":"x"}})"},
      {"options.mirostat", R"({"options":{"mirostat":1}})"},
      {"options.num_gpu", R"({"options":{"num_gpu":3}})"},
      {"options is", R"({"options":5})"},
      {"template", R"({"template":"x"})"},
      {"context", R"({"context":[1]})"},
      {"images", R"({"messages":[{"role":"user","content":"a","images":["x"]}]})"},
      {"keep_alive", R"({"keep_alive":{}})"},
      {"think", R"({"think":5})"},
      {"format", R"({"format":"yaml"})"},
      {"stream", R"({"stream":5})"},
      {"messages[0].role", R"({"messages":[{"role":"x","content":"a"}]})"},
  };
  for (const auto& [named, more] : cases) {
    const auto response = Post("/api/chat", Chat(Json::parse(more)));
    EXPECT_EQ(response.status, 400) << more;
    const Json body = Json::parse(response.body, nullptr, false);
    ASSERT_TRUE(body.is_object() && body["error"].is_string()) << response.body;
    EXPECT_THAT(body["error"].get<std::string>(), HasSubstr(named));
  }
  EXPECT_EQ(Post("/api/chat", Chat({{"model", "llama3"}})).status, 404);
  EXPECT_EQ(Post("/api/chat", {{"messages", Json::array()}}).status, 400);
  EXPECT_EQ(Post("/api/embed", {{"model", "tiny"}}).status, 404);
  const auto pull = Post("/api/pull", {{"model", "x"}});
  EXPECT_EQ(pull.status, 404);
  EXPECT_TRUE(Json::parse(pull.body)["error"].is_string());
}

TEST_F(Ollama, ThinkingIsTurnedOnAndOff) {
  Say("x");
  PostJson("/api/chat", Chat({{"think", true}}));
  EXPECT_THAT(Prompt(1), ::testing::EndsWith("[assistant]<think>\n"));
  PostJson("/api/chat", Chat({{"think", false}}));
  EXPECT_THAT(Prompt(2), ::testing::EndsWith("[assistant]"));
  Serve("{{ messages[0].content }}");
  EXPECT_EQ(Post("/api/chat", Chat({{"think", true}})).status, 400);
}

}  // namespace
}  // namespace spillway::gateway
