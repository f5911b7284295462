// Goal: content, reasoning and calls come apart the same way however the text is cut, and no part of a marker
// is ever content. Method: for every style, texts as published models write them, whole, byte by byte and cut
// at every place; formats are chosen from pieces of their templates.
#include "gateway/text/output_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHermes[] = "within <tool_call></tool_call> XML tags";
constexpr char kQwen3[] = "<tool_call> {{ content.split('</think>') }}";
constexpr char kLlama[] =
    "<|start_header_id|> {\"name\": function name, \"parameters\": dictionary} <|python_tag|>";
constexpr char kMistral[] = "[TOOL_CALLS][";
constexpr char kMistralArgs[] = "[TOOL_CALLS]' + name + '[ARGS]";
constexpr char kCoder[] = "<tool_call>\n<function=f>\n<parameter=p>";
constexpr char kGlm[] = "<tool_call>f\n<arg_key>k</arg_key> </think>";
constexpr char kGranite[] = "<|tool_call|>";
constexpr char kHarmony[] = "<|start|>assistant<|channel|>final<|message|>";

const char kTools[] =
    R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
  "s":{"type":"string"},"i":{"type":"integer"},"o":{"type":"object"}}}}},
  {"type":"function","function":{"name":"g"}}])";

// "content|reasoning|f{…}g{…}"
struct Told {
  std::string content, reasoning, calls;
  std::string Text() const { return content + "|" + reasoning + "|" + calls; }
};

void Take(const std::vector<OutputDelta>& deltas, Told* told) {
  for (const OutputDelta& delta : deltas) {
    EXPECT_FALSE(delta.text.empty());
    switch (delta.kind) {
      case OutputDelta::Kind::kContent:
        told->content += delta.text;
        break;
      case OutputDelta::Kind::kReasoning:
        told->reasoning += delta.text;
        break;
      default:
        told->calls += delta.text;
        break;
    }
  }
}

class Parsing {
 public:
  explicit Parsing(std::string_view chat_template, OutputOptions options = {.calls = true})
      : format_(ChooseOutputFormat(chat_template)), options_(options) {}

  std::string operator()(const std::vector<std::string>& pieces, bool cut = false) const {
    OutputParser parser(format_, options_, ToolSet(Json::parse(kTools)));
    Told told;
    for (const std::string& piece : pieces) Take(parser.Add(piece), &told);
    Take(parser.Finish(cut), &told);
    return told.Text();
  }

  // Every way of cutting gives `expected`.
  void Expect(const std::string& text, const std::string& expected, bool cut = false) const {
    EXPECT_EQ((*this)({text}, cut), expected) << text;
    std::vector<std::string> bytes;
    for (const char c : text) bytes.emplace_back(1, c);
    EXPECT_EQ((*this)(bytes, cut), expected) << text;
    for (size_t i = 1; i < text.size(); ++i) {
      ASSERT_EQ((*this)({text.substr(0, i), text.substr(i)}, cut), expected) << text << " cut at " << i;
      for (size_t k = i + 1; k < text.size(); k += 13) {
        ASSERT_EQ((*this)({text.substr(0, i), text.substr(i, k - i), text.substr(k)}, cut), expected)
            << text << " cut at " << i << " and " << k;
      }
    }
  }

 private:
  const OutputFormat format_;
  const OutputOptions options_;
};

TEST(OutputFormat, IsChosenByTheTemplate) {
  const auto name = [](std::string_view text) {
    const OutputFormat format = ChooseOutputFormat(text);
    return format.calls == nullptr ? std::string_view() : format.calls->name;
  };
  EXPECT_EQ(name(kHermes), "Hermes and Qwen");
  EXPECT_EQ(name(kLlama), "Llama 3");
  EXPECT_EQ(name(kMistral), "Mistral");
  EXPECT_EQ(name(kMistralArgs), "Mistral with [ARGS]");
  EXPECT_EQ(name(kCoder), "Qwen3-Coder");
  EXPECT_EQ(name(kGlm), "GLM-4.5");
  EXPECT_EQ(name(kGranite), "Granite");
  EXPECT_EQ(name("<|im_start|>user"), "");
  EXPECT_TRUE(ChooseOutputFormat(kHarmony).harmony);
  EXPECT_FALSE(ChooseOutputFormat(kHermes).MayReason());
  EXPECT_TRUE(ChooseOutputFormat(kQwen3).MayReason());
}

TEST(OutputParser, PlainTextPassesUnchanged) {
  OutputParser parser;
  EXPECT_EQ(parser.Add(" <tool_call> ").at(0).text, " <tool_call> ");
  const Parsing hermes(kHermes);
  hermes.Expect("", "||");
  hermes.Expect("  Two\n\n", "  Two\n\n||");
  hermes.Expect("a < b and <tool> {\"x\":1} <", "a < b and <tool> {\"x\":1} <||");
  const Parsing no_tools(kHermes, {});
  no_tools.Expect("<tool_call>\n{\"name\":\"f\"}", "<tool_call>\n{\"name\":\"f\"}||");
}

TEST(OutputParser, HermesCalls) {
  const Parsing parse(kHermes);
  parse.Expect("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"a\"}}\n</tool_call>",
               R"(||f{"s": "a"})");
  parse.Expect(
      "Let me see.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"}</tool_call>\\\"\"}}</tool_call>\n"
      "<tool_call>\n{\"arguments\": {}, \"name\": \"g\"}\n</tool_call>\n",
      R"(Let me see.||f{"s":"}</tool_call>\""}g{})");
  parse.Expect("<tool_call>{\"name\":\"g\"}</tool_call>", "||g{}");
  parse.Expect("<tool_call>{\"name\":\"g\",\"arguments\":null}</tool_call>", "||g{}");
  // Arguments that are text hold JSON themselves.
  parse.Expect(R"(<tool_call>{"name":"f","arguments":"{\"s\":\"é\"}"}</tool_call>)", R"(||f{"s":"é"})");
  parse.Expect("<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":[1,{\"a\":\"]\"}]}} and more",
               R"(and more||f{"s":[1,{"a":"]"}]})");
}

TEST(OutputParser, WhatIsNoCallIsContent) {
  const Parsing parse(kHermes);
  parse.Expect("<tool_call> is a tag", "<tool_call> is a tag||");
  parse.Expect("<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"name\": 5}</tool_call>||");
  Parsing(kGranite).Expect("<|tool_call|>none", "<|tool_call|>none||");
}

TEST(OutputParser, ACutCallIsNoContent) {
  const Parsing parse(kHermes);
  parse.Expect("Hm. <tool_call>{\"name\": \"f\", \"argu", "Hm.||f", /*cut=*/true);
  parse.Expect("Hm. <tool_call>{\"na", "Hm.||", /*cut=*/true);
  parse.Expect("Hm. <tool_ca", "Hm. ||", /*cut=*/true);
  parse.Expect("<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"ab", R"(||f{"s":"ab)", /*cut=*/true);
  parse.Expect("a <", "a <||", /*cut=*/true);
}

TEST(OutputParser, LlamaCalls) {
  const Parsing parse(kLlama);
  parse.Expect(R"({"name": "f", "parameters": {"s": "a"}})", R"(||f{"s": "a"})");
  parse.Expect(R"(<|python_tag|>{"name": "f", "parameters": {"i": 1}}; {"name": "g", "parameters": {}})",
               R"(||f{"i": 1}g{})");
  parse.Expect(R"( {"type": "function", "name": "g", "parameters": {}})", "||g{}");
  // An answer that is JSON is an answer.
  parse.Expect(R"({"name": "Bob", "age": 5})", R"({"name": "Bob", "age": 5}||)");
  parse.Expect(R"({"age": 5, "name": "f"} {)", R"({"age": 5, "name": "f"} {||)");
  parse.Expect(R"(See {"name": "f", "parameters": {}})", R"(See {"name": "f", "parameters": {}}||)");
}

TEST(OutputParser, MistralCalls) {
  Parsing(kMistral).Expect(
      R"([TOOL_CALLS] [{"name": "f", "arguments": {"s": "]"}, "id": "123456789"}, {"name": "g", "arguments": {}}])",
      R"(||f{"s": "]"}g{})");
  Parsing(kMistral).Expect(R"([TOOL_CALLS][{"name":"g","arguments":{}}]</s>)", "</s>||g{}");
  Parsing(kMistralArgs)
      .Expect(R"(Yes.[TOOL_CALLS]f[ARGS]{"s": "[TOOL_CALLS]"}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{})",
              R"(Yes.||f{"s": "[TOOL_CALLS]"}g{})");
  Parsing(kGranite).Expect(R"(<|tool_call|>[{"name":"f","arguments":{"i":1}}])", R"(||f{"i":1})");
}

TEST(OutputParser, TaggedCallsBecomeJsonByTheSchema) {
  const Parsing parse(kCoder);
  parse.Expect(
      "Ok\n<tool_call>\n<function=f>\n<parameter=s>\n5\n</parameter>\n<parameter=i>\n5\n</parameter>\n"
      "<parameter=o>\n{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>",
      R"(Ok||f{"s": "5", "i": 5, "o": {"a": [1]}})");
  parse.Expect("<function=g>\n</function>\n</tool_call>", "||g{}");
  parse.Expect(
      "<tool_call>\n<function=f>\n<parameter=s>\nline 1\n\n\"<b>\"\n</parameter>\n</function>\n</tool_call>\n"
      "<tool_call>\n<function=g>\n</function>\n</tool_call>",
      R"(||f{"s": "line 1\n\n\"<b>\""}g{})");
  parse.Expect("<tool_call> or <function= of it", "<tool_call> or <function= of it||");
  Parsing(kGlm).Expect(
      "<think>x</think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a "
      "b</arg_value>\n<arg_key>i</arg_key>\n"
      "<arg_value>7</arg_value>\n</tool_call>",
      R"(|x|f{"s": "a b", "i": 7})");
}

TEST(OutputParser, ReasoningIsTakenOut) {
  const Parsing parse(kQwen3);
  parse.Expect("<think>\nLet me see <b>.\n</think>\n\nFour.", "Four.|Let me see <b>.|");
  parse.Expect("\n<think></think>Four. <think>", "Four. <think>||");
  parse.Expect("No <think> here</think>", "No <think> here</think>||");
  parse.Expect("<think>a\n</think>\n<tool_call>{\"name\":\"g\"}</tool_call>", "|a|g{}");
  parse.Expect("<think>never ends </th", "|never ends|", /*cut=*/true);
  const Parsing opened(kQwen3, {.in_reasoning = true});
  opened.Expect("Hm.\n\nSo.\n</think>\n\n4", "4|Hm.\n\nSo.|");
  const Parsing kept(kQwen3, {.reasoning = false});
  kept.Expect("<think>a</think>b", "<think>a</think>b||");
}

TEST(OutputParser, HarmonyChannels) {
  const Parsing parse(kHarmony);
  parse.Expect(
      "<|channel|>analysis<|message|>Think < of it.<|end|><|start|>assistant<|channel|>final<|message|>4.",
      "4.|Think < of it.|");
  parse.Expect(
      "<|channel|>analysis<|message|>Call.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{\"s\":\"a\"}<|call|>",
      R"(|Call.|f{"s":"a"})");
  parse.Expect(" to=functions.g<|channel|>commentary json<|message|><|call|>", "||g{}");
  parse.Expect(
      "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.g<|message|>{}",
      "I will look.||g{}");
  parse.Expect("Plain.", "Plain.||");
  parse.Expect("<|channel|>final<|message|>a<|retu", "a||", /*cut=*/true);
}

TEST(OutputParser, OneCallIsEnoughWhereTheyMustNotBeParallel) {
  const OutputOptions one = {.calls = true, .parallel = false};
  Parsing(kHermes, one)
      .Expect("<tool_call>{\"name\":\"g\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call> x", "||g{}");
  Parsing(kMistral, one)
      .Expect(R"([TOOL_CALLS][{"name":"g","arguments":{}},{"name":"f","arguments":{}}])", "||g{}");
}

TEST(OutputParser, ForcedBeginningsArePartOfTheCall) {
  for (const char* chat_template : {kHermes, kLlama, kMistral, kMistralArgs, kGranite}) {
    const OutputFormat format = ChooseOutputFormat(chat_template);
    OutputParser parser(format, {.calls = true}, ToolSet(Json::parse(kTools)));
    Told told;
    Take(parser.Add(ForcedCall(format, "f")), &told);
    Take(parser.Add("{\"s\": \"a\"}"), &told);
    Take(parser.Finish(false), &told);
    EXPECT_EQ(told.Text(), R"(||f{"s": "a"})") << chat_template;
    OutputParser any(format, {.calls = true}, ToolSet(Json::parse(kTools)));
    Told none;
    Take(any.Add(ForcedCall(format, "")), &none);
    EXPECT_EQ(none.Text(), "||") << chat_template;
  }
  const OutputFormat coder = ChooseOutputFormat(kCoder);
  OutputParser parser(coder, {.calls = true}, ToolSet(Json::parse(kTools)));
  Told told;
  Take(parser.Add(ForcedCall(coder, "f")), &told);
  Take(parser.Add("<parameter=i>1</parameter></function></tool_call>"), &told);
  EXPECT_EQ(told.Text(), R"(||f{"i": 1})");
}

TEST(OutputParser, NamesComeBeforeArgumentsAndThoseInPieces) {
  OutputParser parser(ChooseOutputFormat(kHermes), {.calls = true}, ToolSet(Json::parse(kTools)));
  EXPECT_TRUE(parser.Add("<tool_call>{\"arguments\": {\"s\": ").empty());
  const auto named = parser.Add("1}, \"name\": \"f\"");
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].text, "f");
  EXPECT_EQ(named[1].text, "{\"s\": 1}");
  EXPECT_TRUE(parser.Add("}</tool_call>").empty());
  EXPECT_EQ(parser.Add("<tool_call>{\"name\":\"f\",").size(), 1u);
  EXPECT_EQ(parser.Add("\"arguments\":{\"s\"").at(0).text, "{\"s\"");
  EXPECT_EQ(parser.Add(":1").at(0).text, ":1");
  EXPECT_EQ(parser.calls(), 2u);
}

}  // namespace
}  // namespace spillway
