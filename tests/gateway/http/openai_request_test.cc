// Goal: every field of the OpenAI bodies is read as documented, and every bad one is refused with its name.
// Method: tables of bodies against a tiny vocabulary whose token i is byte i.
#include "gateway/http/openai_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/http/bounded_json.h"
#include "tests/gateway/http/tiny_vocabulary.h"

namespace spillway::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Endpoint kChat = Endpoint::kChatCompletions;
constexpr Endpoint kText = Endpoint::kCompletions;
constexpr uint64_t kFreshSeed = 4711;

class OpenAiRequest : public ::testing::Test {
 protected:
  std::optional<ApiError> Parse(Endpoint endpoint, const std::string& body) {
    parsed_ = ParsedRequest();
    return ParseRequest(endpoint, body, {model_, kFreshSeed, 0}, &parsed_);
  }
  // The body of a valid request with further members.
  static std::string With(Endpoint endpoint, const std::string& members) {
    const std::string prompt =
        endpoint == kChat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")";
    return "{" + prompt + (members.empty() ? "" : "," + members) + "}";
  }
  void ExpectOk(Endpoint endpoint, const std::string& body) {
    const auto error = Parse(endpoint, body);
    EXPECT_FALSE(error.has_value()) << body << ": " << error->message;
  }
  void ExpectRefused(Endpoint endpoint, const std::string& body, const std::string& param,
                     const std::string& text = "") {
    const auto error = Parse(endpoint, body);
    ASSERT_TRUE(error.has_value()) << body;
    EXPECT_EQ(error->status, 400) << body;
    EXPECT_EQ(error->param, param) << body << ": " << error->message;
    EXPECT_THAT(error->message, HasSubstr(param)) << body;
    EXPECT_THAT(error->message, HasSubstr(text)) << body;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = test::MakeTokenizer();
  std::unique_ptr<ChatTemplate> template_ = test::MakeChatTemplate();
  grammar::ConstraintCompiler constraints_{*tokenizer_};
  ServedModel model_ = [this] {
    ServedModel model = test::MakeServedModel(tokenizer_.get(), template_.get());
    model.constraints = &constraints_;
    return model;
  }();
  ParsedRequest parsed_;
};

TEST_F(OpenAiRequest, DefaultsAreThoseOfTheApi) {
  ExpectOk(kChat, With(kChat, ""));
  EXPECT_EQ(parsed_.generation.max_tokens, 0u);
  EXPECT_EQ(parsed_.generation.sampling.temperature, 1.0f);
  EXPECT_EQ(parsed_.generation.sampling.seed, kFreshSeed);
  EXPECT_THAT(parsed_.generation.stop_ids, ElementsAre(test::kImEnd));
  EXPECT_EQ(parsed_.generation.sampling.stop_ids, parsed_.generation.stop_ids);
  EXPECT_FALSE(parsed_.stream);
  ExpectOk(kText, With(kText, ""));
  EXPECT_EQ(parsed_.generation.max_tokens, kDefaultCompletionTokens);
}

TEST_F(OpenAiRequest, EveryFieldIsRead) {
  ExpectOk(kChat,
           With(kChat, R"("model":"default","temperature":0,"top_p":0.5,"top_k":7,"min_p":0.25,"seed":-1,
      "max_tokens":3,"max_completion_tokens":9,"presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.5,
      "logit_bias":{"104":-100,"5":1.5},"logprobs":true,"top_logprobs":20,"stop":["a","bc"],"stream":true,
      "stream_options":{"include_usage":true},"ignore_eos":true,"min_tokens":2,"stop_token_ids":[7],"n":1,
      "user":"u","metadata":{"a":[1]},"something_else":{})"));
  const SamplingParams& sampling = parsed_.generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_EQ(sampling.top_p, 0.5f);
  EXPECT_EQ(sampling.top_k, 7u);
  EXPECT_EQ(sampling.min_p, 0.25f);
  EXPECT_EQ(sampling.seed, ~uint64_t{0});
  EXPECT_EQ(sampling.presence_penalty, -2.0f);
  EXPECT_EQ(sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{104, -100.0f}, {5, 1.5f}}));
  EXPECT_TRUE(sampling.logprobs);
  EXPECT_EQ(sampling.n_logprobs, 20u);
  EXPECT_EQ(sampling.min_tokens, 2u);
  EXPECT_EQ(parsed_.generation.max_tokens, 9u);
  EXPECT_TRUE(parsed_.generation.ignore_eos);
  EXPECT_THAT(parsed_.generation.stop_ids, ElementsAre(test::kImEnd, 7));
  EXPECT_TRUE(parsed_.stream);
  EXPECT_TRUE(parsed_.include_usage);
}

TEST_F(OpenAiRequest, NullCountsAsAbsent) {
  for (const char* name : {"model",
                           "temperature",
                           "top_p",
                           "top_k",
                           "min_p",
                           "seed",
                           "max_tokens",
                           "max_completion_tokens",
                           "stop",
                           "n",
                           "logprobs",
                           "top_logprobs",
                           "logit_bias",
                           "stream",
                           "stream_options",
                           "tools",
                           "tool_choice",
                           "response_format",
                           "functions",
                           "audio",
                           "modalities",
                           "best_of",
                           "suffix",
                           "echo",
                           "chat_template_kwargs"}) {
    ExpectOk(kChat, With(kChat, "\"" + std::string(name) + "\":null"));
    ExpectOk(kText, With(kText, "\"" + std::string(name) + "\":null"));
  }
}

TEST_F(OpenAiRequest, ResponseFormatBecomesAConstraint) {
  for (const Endpoint endpoint : {kChat, kText}) {
    ExpectOk(endpoint, With(endpoint, R"("response_format":{"type":"text"})"));
    EXPECT_EQ(parsed_.generation.constraint, nullptr);
    ExpectOk(endpoint, With(endpoint, R"("response_format":{"type":"json_object"})"));
    ASSERT_NE(parsed_.generation.constraint, nullptr);
    grammar::ConstraintState object(parsed_.generation.constraint);
    EXPECT_FALSE(object.Advance('['));
    EXPECT_TRUE(object.Advance('{'));
    ExpectOk(
        endpoint,
        With(endpoint, R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,
        "schema":{"type":"object","properties":{"z":{"type":"null"},"a":{"type":"null"}},"required":["a","z"]}}})"));
    grammar::ConstraintState state(parsed_.generation.constraint);
    // In the schema's order, which is not that of the alphabet.
    for (const char c : std::string_view(R"({"z":null,"a":null})")) ASSERT_TRUE(state.Advance(c)) << c;
    EXPECT_TRUE(state.Complete());
  }
  ExpectRefused(
      kChat, With(kChat, R"("response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}})"),
      "response_format", "'not' at # is not supported");
}

TEST_F(OpenAiRequest, BadValuesNameTheParameter) {
  const std::pair<const char*, const char*> cases[] = {
      {"temperature", "2.01"},
      {"temperature", "-0.1"},
      {"temperature", "\"1\""},
      {"temperature", "true"},
      {"temperature", "[]"},
      {"top_p", "0"},
      {"top_p", "1.1"},
      {"top_k", "-2"},
      {"top_k", "1.5"},
      {"top_k", "99999999999"},
      {"min_p", "1"},
      {"min_p", "-1"},
      {"max_tokens", "0"},
      {"max_tokens", "-1"},
      {"max_tokens", "513"},
      {"max_tokens", "1e3"},
      {"max_tokens", "\"5\""},
      {"max_tokens", "99999999999999999999"},
      {"max_completion_tokens", "0"},
      {"seed", "1.5"},
      {"seed", "\"x\""},
      {"seed", "18446744073709551615"},
      {"stop", "5"},
      {"stop", "\"\""},
      {"stop", "[\"\"]"},
      {"stop", "[1]"},
      {"stop", "{}"},
      {"n", "9"},
      {"n", "0"},
      {"n", "\"1\""},
      {"presence_penalty", "2.5"},
      {"frequency_penalty", "-3"},
      {"repetition_penalty", "0"},
      {"repetition_penalty", "11"},
      {"logit_bias", "[]"},
      {"logit_bias", "{\"x\":1}"},
      {"logit_bias", "{\"260\":1}"},
      {"logit_bias", "{\"-1\":1}"},
      {"logit_bias", "{\"1\":101}"},
      {"logit_bias", "{\"1\":\"a\"}"},
      {"stream", "1"},
      {"stream", "\"true\""},
      {"ignore_eos", "0"},
      {"min_tokens", "-1"},
      {"min_tokens", "1000"},
      {"model", "5"},
      {"stop_token_ids", "[260]"},
      {"stop_token_ids", "5"},
      {"tools", R"([{"type":"function","function":{"name":"f"}}])"},
      {"tool_choice", "\"required\""},
      {"functions", "[{}]"},
      {"function_call", "{\"name\":\"f\"}"},
      {"response_format", R"({"type":"xml"})"},
      {"response_format", R"("json")"},
      {"response_format", R"({"type":"json_schema"})"},
      {"audio", "{}"},
      {"modalities", "[\"text\",\"audio\"]"},
      {"best_of", "2"},
      {"suffix", "\"x\""},
      {"guided_json", "{}"},
      {"store", "true"},
      {"reasoning_effort", "\"high\""},
      {"chat_template", "\"x\""},
      {"use_beam_search", "true"},
      {"prediction", "{}"},
      {"web_search_options", "{}"}};
  for (const auto& [param, value] : cases) {
    const std::string member = "\"" + std::string(param) + "\":" + value;
    ExpectRefused(kChat, With(kChat, member), param);
    ExpectRefused(kText, With(kText, member), param);
  }
  ExpectRefused(kChat, With(kChat, R"("temperature":3)"), "temperature", "[0, 2]");
  ExpectRefused(kChat, With(kChat, R"("max_tokens":513)"), "max_tokens", "[1, 512]");
}

TEST_F(OpenAiRequest, LogprobsHaveTwoForms) {
  ExpectRefused(kChat, With(kChat, R"("logprobs":1)"), "logprobs");
  ExpectRefused(kChat, With(kChat, R"("top_logprobs":2)"), "top_logprobs");
  ExpectRefused(kChat, With(kChat, R"("logprobs":true,"top_logprobs":21)"), "top_logprobs");
  ExpectRefused(kText, With(kText, R"("logprobs":true)"), "logprobs");
  ExpectRefused(kText, With(kText, R"("logprobs":21)"), "logprobs");
  ExpectRefused(kText, With(kText, R"("logprobs":1000000000000)"), "logprobs");
  ExpectOk(kText, With(kText, R"("logprobs":0)"));
  EXPECT_TRUE(parsed_.generation.sampling.logprobs);
  EXPECT_EQ(parsed_.generation.sampling.n_logprobs, 0u);
}

TEST_F(OpenAiRequest, StreamOptionsNeedAStream) {
  ExpectRefused(kChat, With(kChat, R"("stream_options":{"include_usage":true})"), "stream_options");
  ExpectRefused(kChat, With(kChat, R"("stream":true,"stream_options":5)"), "stream_options");
  ExpectRefused(kChat, With(kChat, R"("stream":true,"stream_options":{"include_usage":1})"),
                "stream_options.include_usage");
}

TEST_F(OpenAiRequest, StopHasLimits) {
  const std::string longest(kMaxStopBytes, 'x');
  ExpectOk(kChat, With(kChat, "\"stop\":\"" + longest + "\""));
  ExpectRefused(kChat, With(kChat, "\"stop\":\"" + longest + "x\""), "stop");
  std::string list = "\"a\"";
  for (size_t i = 1; i < kMaxStopStrings; ++i) list += ",\"a\"";
  ExpectOk(kChat, With(kChat, "\"stop\":[" + list + "]"));
  ExpectRefused(kChat, With(kChat, "\"stop\":[" + list + ",\"a\"]"), "stop");
}

TEST_F(OpenAiRequest, ToolsThatMustNotBeCalledAreAccepted) {
  ExpectOk(kChat, With(kChat, R"("tools":[{"type":"function"}],"tool_choice":"none")"));
  ExpectOk(kChat,
           With(kChat, R"("tools":[],"tool_choice":"auto","response_format":{"type":"text"},"best_of":1)"));
}

TEST_F(OpenAiRequest, AnotherModelIsNotFound) {
  const auto error = Parse(kChat, With(kChat, R"("model":"gpt-4")"));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->status, 404);
  EXPECT_EQ(error->code, "model_not_found");
  EXPECT_EQ(error->param, "model");
  ExpectOk(kChat, With(kChat, R"("model":"tiny")"));
}

TEST_F(OpenAiRequest, MessagesBecomeTheTemplatesPrompt) {
  ExpectOk(kChat, R"({"messages":[{"role":"developer","content":"s"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null},{"role":"assistant"},{"role":"user","content":"<|im_end|>"}]})");
  EXPECT_EQ(
      tokenizer_->Decode(parsed_.generation.prompt, true),
      "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
      "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(parsed_.generation.prompt.front(), test::kImStart);
}

TEST_F(OpenAiRequest, BadMessagesNameThePlace) {
  ExpectRefused(kChat, "{}", "messages");
  ExpectRefused(kChat, R"({"messages":[]})", "messages");
  ExpectRefused(kChat, R"({"messages":"hi"})", "messages");
  ExpectRefused(kChat, R"({"messages":[5]})", "messages[0]");
  ExpectRefused(kChat, R"({"messages":[{"content":"x"}]})", "messages[0].role");
  ExpectRefused(kChat, R"({"messages":[{"role":"wizard","content":"x"}]})", "messages[0].role", "wizard");
  ExpectRefused(kChat, R"({"messages":[{"role":"user"}]})", "messages[0].content");
  ExpectRefused(kChat, R"({"messages":[{"role":"user","content":5}]})", "messages[0].content");
  ExpectRefused(kChat, R"({"messages":[{"role":"user","content":[5]}]})", "messages[0].content[0]");
  ExpectRefused(kChat, R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":
      [{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"x"}}]}]})",
                "messages[1].content[1].type", "image_url");
  ExpectRefused(kChat, R"({"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]})",
                "messages[0].tool_calls[0].function");
  ExpectRefused(kChat, With(kChat, R"("chat_template_kwargs":{"messages":"x"})"),
                "chat_template_kwargs.messages");
  ExpectRefused(kChat, With(kChat, R"("chat_template_kwargs":{"x":[]})"), "chat_template_kwargs.x");
}

TEST_F(OpenAiRequest, AModelWithoutATemplateCannotChat) {
  model_.chat_template = nullptr;
  const auto error = Parse(kChat, With(kChat, ""));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->status, 400);
  EXPECT_THAT(error->message, HasSubstr("/v1/completions"));
}

TEST_F(OpenAiRequest, PromptsAreTextOrIds) {
  ExpectOk(kText, R"({"prompt":"abhe"})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre('a', 'b', test::kHe));
  ExpectOk(kText, R"({"prompt":["a<|im_end|>"]})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre('a', test::kImEnd));
  ExpectOk(kText, R"({"prompt":[1,259]})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre(1, 259));
  ExpectOk(kText, R"({"prompt":[[7]]})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre(7));
  for (const char* bad :
       {"{}", R"({"prompt":5})", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":[[]]})",
        R"({"prompt":["a","b"]})", R"({"prompt":[[1],[2]]})", R"({"prompt":[1,260]})", R"({"prompt":[1,-1]})",
        R"({"prompt":[1,"a"]})", R"({"prompt":[1.5]})", R"({"prompt":[true]})", R"({"prompt":{}})"}) {
    ExpectRefused(kText, bad, "prompt");
  }
}

TEST_F(OpenAiRequest, BosIsAddedOnceAndOnlyToText) {
  const auto with_bos = test::MakeTokenizer(/*add_bos=*/true);
  model_ = test::MakeServedModel(with_bos.get(), template_.get());
  ExpectOk(kText, R"({"prompt":"a"})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre(test::kBos, 'a'));
  ExpectOk(kText, R"({"prompt":"<|bos|>a"})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre(test::kBos, 'a'));
  ExpectOk(kText, R"({"prompt":[97]})");
  EXPECT_THAT(parsed_.generation.prompt, ElementsAre('a'));
  ExpectOk(kChat, With(kChat, ""));
  EXPECT_EQ(parsed_.generation.prompt[0], test::kBos);
  EXPECT_EQ(parsed_.generation.prompt[1], test::kImStart);
}

TEST_F(OpenAiRequest, TheContextBoundsPromptAndAnswer) {
  const std::string fits(test::kContext - 1, 'a');
  ExpectOk(kText, R"({"max_tokens":100,"prompt":")" + fits + "\"}");
  EXPECT_EQ(parsed_.generation.max_tokens, 1u);
  const auto error = Parse(kText, R"({"prompt":")" + fits + "a\"}");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "context_length_exceeded");
  EXPECT_EQ(error->param, "prompt");
  EXPECT_THAT(error->message, HasSubstr("512"));
}

TEST_F(OpenAiRequest, NumbersOutOfRangeNameTheParameter) {
  for (const char* value : {"1e999", "-1e999", "1e400", "[1,-2e5000]", R"({"5":1e999})"}) {
    for (const char* param : {"max_tokens", "temperature", "seed", "logit_bias", "unknown_to_all"}) {
      ExpectRefused(kText, With(kText, fmt::format(R"("{}":{},"top_p":0.5)", param, value)), param,
                    "out of range");
    }
  }
  // Tiny numbers are zero, large ones that a double holds are refused by their fields.
  ExpectOk(kText, With(kText, R"("temperature":1e-999)"));
  ExpectRefused(kText, With(kText, R"("max_tokens":123456789012345678901234567890)"), "max_tokens",
                "integer");
  ExpectRefused(kText, With(kText, R"("max_tokens":18446744073709551615)"), "max_tokens", "allowed");
  ExpectRefused(kText, With(kText, R"("top_k":-9223372036854775808)"), "top_k", "allowed");
  ExpectRefused(kText, With(kText, R"("top_k":-9223372036854775809)"), "top_k", "integer");
}

TEST_F(OpenAiRequest, OfAMemberGivenTwiceTheLastCounts) {
  ExpectOk(kText, With(kText, R"("max_tokens":-5,"max_tokens":7)"));
  EXPECT_EQ(parsed_.generation.max_tokens, 7u);
  ExpectRefused(kText, With(kText, R"("max_tokens":7,"max_tokens":-5)"), "max_tokens");
}

TEST_F(OpenAiRequest, MessagesRepeatLittleOfWhatTheClientSent) {
  std::string huge;
  for (int i = 0; i < 100'000; ++i) huge += "é";
  for (const std::string& body :
       {With(kChat, "\"model\":\"" + huge + "\""), With(kChat, "\"logit_bias\":{\"" + huge + "\":1}"),
        With(kChat, "\"chat_template_kwargs\":{\"" + huge + "\":[]}"), With(kChat, "\"" + huge + "\":1e999"),
        R"({"messages":[{"role":")" + huge + R"(","content":"x"}]})",
        R"({"messages":[{"role":"user","content":[{"type":")" + huge + R"("}]}]})"}) {
    const auto error = Parse(kChat, body);
    ASSERT_TRUE(error.has_value()) << body.substr(0, 60);
    EXPECT_LT(error->message.size() + error->param.size(), 500u) << body.substr(0, 60);
    EXPECT_TRUE(IsValidUtf8(error->message)) << body.substr(0, 60);
  }
}

TEST_F(OpenAiRequest, BodiesThatAreNoRequestsAreRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "must be an object"},
      {"\"x\"", "must be an object"},
      {R"({"prompt":NaN})", "not valid JSON"},
      {R"({"prompt":"a"} x)", "not valid JSON"},
      {"{\"prompt\":\"\xff\"}", "UTF-8"},
      {"{\"prompt\":\"\xed\xa0\x80\"}", "UTF-8"},
      {R"({"prompt":"\ud800"})", "not valid JSON"},
      {R"({"temperature":1e999})", "temperature holds a number out of range"},
      {R"({"prompt":"\ud800\u0041"})", "not valid JSON"},
      {R"({"prompt":"\udc00"})", "not valid JSON"},
      {R"({"prompt":"\u12"})", "not valid JSON"},
      {"{\"prompt\":\"a\nb\"}", "not valid JSON"},
      {R"({"temperature":Infinity})", "not valid JSON"},
      {R"({"temperature":01})", "not valid JSON"},
      {R"({"a":1,})", "not valid JSON"},
      {"{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", "deep"},
      {"{\"a\":[0" + std::string(2 * 600000, ','), "values"},
  };
  for (const auto& [body, text] : cases) {
    const auto error = Parse(kText, body);
    ASSERT_TRUE(error.has_value()) << body.substr(0, 50);
    EXPECT_EQ(error->status, 400);
    EXPECT_THAT(error->message, HasSubstr(text)) << body.substr(0, 50);
    EXPECT_THAT(error->message, Not(HasSubstr("json.exception"))) << body.substr(0, 50);
  }
  // Brackets inside strings are no depth.
  ExpectOk(
      kText,
      R"({"prompt":"\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})");
}

}  // namespace
}  // namespace spillway::gateway
