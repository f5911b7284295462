// Schemas become masks under which every answer that ends is valid JSON of that schema; what is not supported
// is named with its path.
#include "engine/grammar/constraint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "tests/grammar/sampling.h"
#include "tests/grammar/validator.h"

namespace spillway::test {
namespace {

using grammar::Constraint;
using grammar::ConstraintState;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

std::shared_ptr<Constraint> Compile(const std::string& schema) {
  auto made = Constraint::FromSchema(Json::parse(schema), SmallVocabulary());
  EXPECT_TRUE(made.ok()) << schema << ": " << MessageOf(made.status());
  return made.ok() ? *made : nullptr;
}

std::string Refusal(const std::string& schema) {
  const auto made = Constraint::FromSchema(Json::parse(schema), SmallVocabulary());
  return made.ok() ? "accepted" : MessageOf(made.status());
}

// Byte by byte; whether the whole text is an answer.
bool Admits(const std::shared_ptr<Constraint>& constraint, std::string_view text) {
  ConstraintState state(constraint);
  for (const char byte : text) {
    if (!state.Advance(static_cast<uint8_t>(byte))) return false;
  }
  return state.Accepting();
}

void ExpectAdmits(const std::string& schema, std::initializer_list<const char*> good,
                  std::initializer_list<const char*> bad) {
  const auto constraint = Compile(schema);
  ASSERT_NE(constraint, nullptr);
  for (const char* text : good) EXPECT_TRUE(Admits(constraint, text)) << schema << " should admit " << text;
  for (const char* text : bad)
    EXPECT_FALSE(Admits(constraint, text)) << schema << " should not admit " << text;
}

constexpr const char* kSchemas[] = {
    R"({"type":"object"})",
    R"(true)",
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"number"},"b":{"type":["string","null"]},"c":{"type":"boolean"}},"required":["b"]})",
    R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
    R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":3})",
    R"({"type":"array","items":{"enum":["x","y",1,null,{"k":[1]}]},"minItems":2,"maxItems":4})",
    R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"},{"const":true}],"items":false,"minItems":1})",
    R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"string"},"maxItems":3})",
    R"({"type":"string","minLength":2,"maxLength":5})",
    R"({"type":"string","maxLength":0})",
    R"({"type":"integer","minimum":-12,"maximum":345})",
    R"({"type":"integer","minimum":10,"multipleOf":7})",
    R"({"type":"number","exclusiveMinimum":0,"maximum":1.5})",
    R"({"type":"number","minimum":-2.25})",
    R"({"anyOf":[{"type":"string"},{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}]})",
    R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"n":{"type":"integer"}},"required":["kind","n"]},
        {"type":"object","properties":{"kind":{"const":"b"},"s":{"type":"string"}},"required":["kind"]}]})",
    R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":3}}},{"properties":{"a":{"maximum":9},"b":{"type":"null"}},"required":["a"]}]})",
    R"({"type":"object","properties":{"value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["value","next"]})",
    R"({"$defs":{"node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["children"],"additionalProperties":false}},"$ref":"#/$defs/node"})",
    R"({"type":"object","required":["free"],"properties":{"é\"":{"type":"null"}}})",
};

TEST(Constraint, WhatEndsIsValid) {
  const auto vocabulary = SmallVocabulary();
  for (const char* text : kSchemas) {
    const Json schema = Json::parse(text);
    const auto constraint = Constraint::FromSchema(schema, vocabulary);
    ASSERT_TRUE(constraint.ok()) << text << ": " << MessageOf(constraint.status());
    int ended = 0;
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const Sample sample = DrawSample(*constraint, *vocabulary, seed, 300);
      ASSERT_EQ(sample.error, "") << text;
      if (!sample.ended) continue;
      ++ended;
      const Json value = Json::parse(sample.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << sample.text;
      ASSERT_EQ(Violation(schema, value, schema), "") << text << " gave " << sample.text;
    }
    EXPECT_GT(ended, 30) << text;
  }
}

TEST(Constraint, AdmitsWhatTheSchemaSays) {
  ExpectAdmits(
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]})",
      {R"({"a":1})", R"({ "a": -20, "b": "x\n\u00e9\ud83d\ude00" })", "{\n  \"a\": 0\n}"},
      {"{}", R"({"b":"x","a":1})", R"({"a":01})", R"({"a":1,})", R"({"a":1.5})", R"({"a":1,"c":2})", "[]",
       R"({"a":1} )", R"({"a":1}{)", R"({"a":1,"b":"\ud83d"})", "{\"a\":1,\"b\":\"\n\"}", "{\"a\":  1}"});
  ExpectAdmits(R"({"type":"integer","minimum":-5,"exclusiveMaximum":120})",
               {"-5", "0", "7", "99", "119", "-1"}, {"-6", "120", "1000", "-0", "007", "1.0"});
  ExpectAdmits(R"({"type":"number","minimum":0.5,"exclusiveMaximum":12})",
               {"0.5", "0.500001", "11.999999", "3", "3.0", "10"},
               {"0.4", "0", "12", "12.0", "-1", "3.", "0.49999"});
  ExpectAdmits(R"({"type":"number","minimum":-1.5,"maximum":-0.25})", {"-1.5", "-0.25", "-1", "-1.49"},
               {"-1.6", "-0.2", "0", "1"});
  ExpectAdmits(R"({"type":"integer","multipleOf":15})", {"0", "15", "-30", "12345"}, {"1", "16", "-"});
  ExpectAdmits(R"({"type":"string","minLength":1,"maxLength":3})",
               {R"("a")", R"("éé日")", R"("\n\u00e9\ud83d\ude00")"}, {R"("")", R"("abcd")"});
  ExpectAdmits(R"({"enum":["a\"b",12,null,[1,{"x":true}]]})",
               {R"("a\"b")", "12", "null", R"([1,{"x":true}])"}, {"1", "\"a\""});
  ExpectAdmits(R"({"type":["integer","null"],"enum":["a",1,null]})", {"1", "null"}, {"\"a\""});
  ExpectAdmits(R"({"type":"object","properties":{"a":true},"additionalProperties":{"type":"integer"}})",
               {R"({"a":[]})", R"({"a":1,"b":2,"c":3})", R"({"ab":2})", R"({"":2})"},
               {R"({"b":"x"})", R"({"b":1,"a":2})"});
  ExpectAdmits(R"({"type":"array","minItems":1,"maxItems":2,"items":{"type":"boolean"}})",
               {"[true]", "[ true, false ]"}, {"[]", "[true,true,true]", "[1]"});
}

TEST(Constraint, PatternsAndFormats) {
  ExpectAdmits(R"({"type":"string","pattern":"^[A-Z]{2}-\\d+$"})", {R"("AB-1")", R"("XY-007")"},
               {R"("ab-1")", R"("AB-")", R"("AB-1x")"});
  ExpectAdmits(R"({"type":"string","pattern":"b+"})", {R"("b")", R"("abba\"")"}, {R"("a")", R"("")"});
  ExpectAdmits(R"({"type":"string","pattern":"^(?:a|\"q\\\\)*$","maxLength":3})",
               {R"("")", R"("aa")", R"("\"q\\")"}, {R"("aaaa")", R"("q")"});
  ExpectAdmits(R"({"type":"string","pattern":"^[^\\d\\s]$|^é.$"})", {R"("x")", R"("éü")"},
               {R"("1")", R"("xy")"});
  ExpectAdmits(R"({"type":"string","format":"date"})", {R"("2024-02-28")", R"("1999-12-31")"},
               {R"("2024-02-30")", R"("2024-13-01")"});
  ExpectAdmits(R"({"type":"string","format":"date-time"})",
               {R"("2024-02-28T10:00:00Z")", R"("2024-02-28T10:00:00.5+01:00")"}, {R"("2024-02-28")"});
  ExpectAdmits(R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"},
               {R"("123e4567")"});
  ExpectAdmits(R"({"type":"string","format":"ipv4"})", {R"("10.0.255.1")"}, {R"("256.0.0.1")", R"("1.2.3")"});
  ExpectAdmits(R"({"type":"string","format":"email"})", {R"("a.b@example.org")"},
               {R"("a@b")", R"("@x.org")"});
}

TEST(Constraint, NamesWhatItDoesNotSupport) {
  EXPECT_THAT(Refusal(R"({"properties":{"a":{"not":{}}}})"),
              HasSubstr("'not' at #/properties/a is not supported"));
  EXPECT_THAT(Refusal(R"({"type":"array","items":{"uniqueItems":true}})"),
              HasSubstr("'uniqueItems' at #/items"));
  EXPECT_THAT(Refusal(R"({"type":"string","format":"regex"})"), HasSubstr("'format' at # is 'regex'"));
  EXPECT_THAT(Refusal(R"x({"type":"string","pattern":"(?=a)"})x"), HasSubstr("look-around"));
  EXPECT_THAT(Refusal(R"({"type":"string","pattern":"(a)\\1"})"), HasSubstr("'\\1' is not supported"));
  EXPECT_THAT(Refusal(R"({"type":"text"})"), HasSubstr("names 'text', which is no type"));
  EXPECT_THAT(Refusal(R"({"$ref":"#/$defs/x"})"), HasSubstr("'#/$defs/x', which is not in the schema"));
  EXPECT_THAT(Refusal(R"({"$ref":"https://example.org/x"})"), HasSubstr("not in the schema"));
  EXPECT_THAT(Refusal(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"),
              HasSubstr("branches 0 and 1 do not"));
  EXPECT_THAT(Refusal(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
              HasSubstr("no value can satisfy"));
  EXPECT_THAT(Refusal(R"({"$ref":"#"})"), HasSubstr("no value can satisfy"));
  EXPECT_THAT(Refusal(R"(false)"), HasSubstr("no value can satisfy"));
  EXPECT_THAT(Refusal(R"({"type":"integer","minimum":3,"maximum":2})"), HasSubstr("no value can satisfy"));
  EXPECT_THAT(Refusal(R"({"prefixItems":[{"type":"null"}],"minItems":9,"maxItems":2})"),
              HasSubstr("no value can satisfy"));
  EXPECT_THAT(Refusal(R"([1])"), HasSubstr("neither an object nor"));
  EXPECT_THAT(Refusal(R"({"allOf":[{"$ref":"#"}]})"), HasSubstr("refers to itself"));
}

TEST(Constraint, StopsHostileSchemas) {
  EXPECT_THAT(Refusal(R"({"type":"string","pattern":"^(?:(?:a{1000}){1000}){1000}$"})"), HasSubstr("states"));
  EXPECT_THAT(Refusal(R"({"type":"string","pattern":"(a|b)*a(a|b){14}$"})"),
              HasSubstr("more than 4096 states"));
  std::string deep = "true";
  for (int i = 0; i < 100; ++i) deep = fmt::format(R"({{"items":{}}})", deep);
  EXPECT_THAT(Refusal(deep), HasSubstr("nests deeper than 64"));
  Json wide = {{"type", "object"}};
  for (int i = 0; i < 6000; ++i) wide["properties"][fmt::format("p{}", i)] = {{"type", "array"}};
  EXPECT_THAT(Refusal(wide.dump()), HasSubstr("too large"));
  Json patterns = {{"type", "array"}};
  for (int i = 0; i < 150; ++i) patterns["prefixItems"].push_back({{"pattern", fmt::format("x{}", i)}});
  EXPECT_THAT(Refusal(patterns.dump()), HasSubstr("more than 100 different patterns"));
  Json joined = {{"allOf", Json::array()}};
  for (int i = 0; i < 600; ++i) joined["allOf"].push_back({{"minLength", i}});
  EXPECT_THAT(Refusal(joined.dump()), HasSubstr("more than 500 schemas are joined"));
  EXPECT_THAT(Refusal(Json{{"const", std::string(300'000, 'x')}}.dump()), HasSubstr("at most 262144"));
  Json optional = {{"type", "object"}};
  for (int i = 0; i < 3000; ++i) optional["properties"][fmt::format("p{}", i)] = true;
  EXPECT_THAT(Refusal(optional.dump()), HasSubstr("more than 2048 ways open"));
}

// A recursion is followed down to a bound, below which only what ends is offered.
TEST(Constraint, RecursionEndsBeforeTheStackDoes) {
  const auto constraint = Compile(R"({"type":"array","items":{"$ref":"#"}})");
  ConstraintState state(constraint);
  int depth = 0;
  while (state.Advance('[')) ++depth;
  EXPECT_GT(depth, 60);
  EXPECT_LT(depth, 500);
  for (int i = 0; i < depth; ++i) ASSERT_TRUE(state.Advance(']'));
  EXPECT_TRUE(state.Complete());
}

TEST(Constraint, EndsOnlyWhereTheTextIsComplete) {
  const auto vocabulary = SmallVocabulary();
  const int32_t end = vocabulary->stop_ids().front();
  ConstraintState state(Compile(R"({"type":"integer"})"));
  EXPECT_FALSE(state.Advance(end));
  EXPECT_TRUE(state.Advance('4'));
  EXPECT_TRUE(state.Accepting());
  EXPECT_FALSE(state.Complete());
  EXPECT_TRUE(state.Advance(end));
  EXPECT_FALSE(state.Advance('4'));
}

// What was remembered is thrown away from time to time; an answer under way does not notice.
TEST(Constraint, SurvivesForgetting) {
  const auto constraint = Compile(R"({"type":"string","minLength":9000})");
  ConstraintState state(constraint);
  ASSERT_TRUE(state.Advance('"'));
  for (int i = 0; i < 9000; ++i) {
    ASSERT_FALSE(state.Advance('"')) << i;
    ASSERT_TRUE(state.Advance('x')) << i;
  }
  EXPECT_TRUE(state.Advance('"'));
  EXPECT_TRUE(state.Complete());
}

}  // namespace
}  // namespace spillway::test
