// The template language, construct by construct. Expected texts follow Python's jinja2 with transformers'
// settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "engine/chat/chat_template.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

// The rendering, or "error: …".
std::string Render(std::string_view source, const char* extra = "{}") {
  const auto chat = ChatTemplate::Parse(source);
  if (!chat.ok()) return "error: " + MessageOf(chat.status());
  ChatTemplateInput input;
  input.extra = nlohmann::ordered_json::parse(extra);
  input.now_unix_seconds = 1'785'000'000;  // 2026-07-25T17:20:00Z
  const auto rendered = (*chat)->Render(input);
  return rendered.ok() ? *rendered : "error: " + MessageOf(rendered.status());
}

struct Case {
  const char* source;
  const char* expected;
};

void Check(std::initializer_list<Case> cases, const char* extra = "{}") {
  for (const Case& one : cases) EXPECT_EQ(Render(one.source, extra), one.expected) << one.source;
}

TEST(Jinja, ControlsWhiteSpaceAsTransformersSetsItUp) {
  Check({
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"a\r\nb", "a\nb"},
      {"{% if true %}\nx\n{% endif %}\ny", "x\ny"},
      {"  {% if true %}\n  x\n  {% endif %}\n", "  x\n"},
      {"a {% if true %} b {% endif %} c", "a  b  c"},
      {"a \n {%- if true -%} \n b \n {%- endif -%} \n c", "abc"},
      {"a\n  {%+ if true %}b{% endif +%}\nc", "a\n  b\nc"},
      {"{# note #}\nx", "x"},
      {"a\n  {# note #}\n  b", "a\n  b"},
      {"a {#- note -#} b", "ab"},
      {"  {{ 1 }}\n  {{- 2 -}}  \n3", "  123"},
      {"{% raw %}{{ x }}{% y %}{% endraw %}!", "{{ x }}{% y %}!"},
      {"{% raw -%} a {%- endraw %}", "a"},
      {"{", "{"},
      {"a { b } c", "a { b } c"},
  });
}

TEST(Jinja, Literals) {
  Check({
      {R"({{ "a\n\"b\"\u00e9\x41" }})", "a\n\"b\"éA"},
      {R"({{ 'it''s' ~ "x" "y" }})", "itsxy"},
      {"{{ 1_000 }} {{ 1.5 }} {{ 2e3 }} {{ 1e16 }} {{ 1e-5 }}", "1000 1.5 2000.0 1e+16 1e-05"},
      {"{{ true }} {{ False }} {{ none }} {{ None }}", "True False None None"},
      {"{{ [1, 'a', [none]] }} {{ (1,) }} {{ () }} {{ 1, 2 }}", "[1, 'a', [None]] (1,) () (1, 2)"},
      {"{{ {'a': 1, \"it's\": {'b': 2.0}} }}", "{'a': 1, \"it's\": {'b': 2.0}}"},
      {"{{ ['\\n\\\\'] }}", "['\\n\\\\']"},
  });
}

TEST(Jinja, OperatorsAndPrecedence) {
  Check({
      {"{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 10 }}", "3 9 1024"},
      {"{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 % 2 }}", "3.5 3 -4 2 1.5"},
      {"{{ 1 ~ 'a' ~ none ~ 2.0 }} {{ 'a' + 'b' * 3 }}", "1aNone2.0 abbb"},
      {"{{ [1] + [2] }} {{ [0] * 2 }}", "[1, 2] [0, 0]"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }}",
       "True False True True False"},
      {"{{ 'b' in 'abc' }} {{ 2 in [1] }} {{ 'k' in {'k': 1} }} {{ 2 not in [1] }} {{ 'x' in y }}",
       "True False True True False"},
      {"{{ not 1 == 2 }} {{ 1 and 0 or 5 }} {{ '' or 'x' }} {{ [] and 1 }}", "True 5 x []"},
      {"{{ 'a' if false else 'b' if false else 'c' }} [{{ 'a' if false }}]", "c []"},
      {"{{ -2|abs }} {{ 'a' + 2 ~ 'b' }}", "2 a2b"},
  });
}

TEST(Jinja, AttributesItemsAndSlices) {
  Check(
      {
          {"{{ d.a }} {{ d['a'] }} {{ d.list[-1] }} {{ d.list.0 }} [{{ d.nope }}] [{{ d.list[9] }}]",
           "1 1 3 1 [] []"},
          {"{{ d.list[1:] }} {{ d.list[:-1] }} {{ d.list[::-1] }} {{ d.list[::2] }} {{ d.list[5:] }}",
           "[2, 3] [1, 2] [3, 2, 1] [1, 3] []"},
          {"{{ s[1:3] }} {{ s[-1] }} {{ s[::-1] }} {{ s|length }}", "é語 x x語éa 4"},
          {"{{ d['items'] is callable }} {{ d.items()|length }} {{ none.x is defined }}", "True 2 False"},
      },
      R"({"d": {"a": 1, "list": [1, 2, 3]}, "s": "aé語x"})");
}

TEST(Jinja, LoopsAndTheirVariable) {
  Check({
      {"{% for x in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ "
       "loop.last }} {% endfor %}",
       "103TrueFalse 212FalseFalse 321FalseTrue "},
      {"{% for x in [1,2,3,4] if x is even %}{{ x }}/{{ loop.length }} {% endfor %}", "2/2 4/2 "},
      {"{% for x in [] %}a{% else %}none{% endfor %}", "none"},
      {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "a=1;b=2;"},
      {"{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'éx' %}{{ c }},{% endfor %}", "aé,x,"},
      {"{% for x in [1,2,3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
       "<1>2 1<2>3 2<3> "},
      {"{% for x in [1,2,3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"},
      {"{% for x in [1,2,3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"},
      {"{% for x in [1,2] %}{% for y in [1,2] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
       "121 122 "},
      {"{% for x in [1,1,2] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }} {% endfor %}",
       "Truea Falseb Truea "},
      {"{% for x in nothing %}x{% endfor %}|{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}", "|321"},
  });
}

// The rule of Jinja's compiler: else runs where no turn came to the end of its body.
TEST(Jinja, ElseOfALoopRunsWhereNoTurnWasCompleted) {
  Check({
      {"{% for x in [1, 2] %}{% break %}{% else %}e{% endfor %}", "e"},
      {"{% for x in [1, 2] %}{% continue %}{% else %}e{% endfor %}", "e"},
      {"{% for x in [1, 2] %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% else %}e{% endfor %}", "12"},
      {"{% set y = 1 %}{% for x in [] %}{% else %}{% set y = 2 %}{% endfor %}{{ y }}", "1"},
  });
}

TEST(Jinja, WhatSelectsAndMapsIsWalkedOnce) {
  Check({
      {"{{ 'yes' if [1]|select('string') else 'no' }} {{ ([1]|map('string'))[0] is defined }}", "yes False"},
      {"{% set g = [1, 2]|select %}{{ g|list }}{{ g|list }}", "[1, 2][]"},
      {"{{ none|map('upper')|list }}{{ 0|select|list }}", "[][]"},
      {"{{ [1]|map('string') is iterable }} {{ [1]|map('string') is sequence }}", "True False"},
  });
  EXPECT_THAT(Render("{{ [1]|select|length }}"), HasSubstr("a generator has no length"));
}

TEST(Jinja, FormatsAsPythonDoes) {
  Check({
      {"{{ '%s-%03d|%5.1f|%-4s|%x %%' % ('a', 7, 2.25, 'b', 255) }}", "a-007|  2.2|b   |ff %"},
      {"{{ '%(a)s' % {'a': 1} }} {{ '%s' % [1] }} {{ '%s %s'|format(1, none) }} {{ '%(k)s'|format(k=2) }}",
       "1 [1] 1 None 2"},
      {"{{ '{:>5}|{:<3}|{:^5}|{:05.2f}|{:,}|{:+d}|{x:*^3}'.format('a', 1, 'b', 3.14159, 12345, 3, x='c') }}",
       "    a|1  |  b  |03.14|12,345|+3|*c*"},
  });
  EXPECT_THAT(Render("{{ '%s %s' % (1,) }}"), HasSubstr("not enough arguments"));
  EXPECT_THAT(Render("{{ '%s' % (1, 2) }}"), HasSubstr("not all arguments converted"));
  EXPECT_THAT(Render("{{ '%d' % 'a' }}"), HasSubstr("needs a number"));
  EXPECT_THAT(Render("{{ '%99999d' % 1 }}"), HasSubstr("a width above"));
}

TEST(Jinja, TextFiltersAndMethodsLessOftenUsed) {
  Check({
      {"{{ \"it's a-b (c)\"|title }} {{ \"it's\".title() }}", "It's A-B (C) It'S"},
      {"{{ 'one two three'|truncate(9) }} {{ 'one two three'|truncate(9, true, '..', 0) }}",
       "one two three one two.."},
      {"{{ 'a b/é'|urlencode }} {{ [1,2,3]|slice(2)|list }} {{ 'x'|center(3) }}|",
       "a%20b/%C3%A9 [[1, 2], [3]]  x |"},
      {"{{ 'abcab'.find('a', 1) }} {{ 'abc'.startswith('b', 1) }} {{ 'aXbX'.rindex('X') }} {{ "
       "'aaa'.count('a', 1) }}",
       "3 True 3 2"},
      {"{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ '7'.zfill(3) }} {{ 'a'.ljust(3, '.') "
       "}}",
       "('a', '=', 'b=c') ('a=b', '=', 'c') 007 a.."},
      {"{{ 42|round }} {{ 2.675|round(2) }} {{ 42|round(method='floor') }} {{ 1234|round(-2) }}",
       "42 2.67 42.0 1200"},
      {"{{ 'tojson' is filter }} {{ 'nope' is test }} {{ '1|' is upper }} {{ -7.5 // 2 }} {{ -7.5 % 2 }}",
       "True False False -4.0 0.5"},
      {"{% generation %}{% set a = 1 %}{% endgeneration %}[{{ a }}]", "[]"},
  });
}

TEST(Jinja, SetsStayInTheirScopeUnlessInANamespace) {
  Check({
      {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "21"},
      {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
      {"{% set ns = namespace(n=0) %}{% for i in [1,2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
       "3"},
      {"{% set a, b = 1, 'x' %}{{ a }}{{ b }}", "1x"},
      {"{% set x %}a{{ 1 }}{% endset %}[{{ x }}]{% set y | upper %}b{% endset %}{{ y }}", "[a1]B"},
      {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}[{{ a }}]", "3[]"},
      {"{% filter upper|trim %} ab {% endfilter %}", "AB"},
      {"{% generation %}x{% endgeneration %}", "x"},
  });
}

TEST(Jinja, Macros) {
  Check({
      {"{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(b=0, "
       "a=9) }}",
       "121 123 909"},
      {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "3210"},
      {"{% macro f() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ f() }}", "5"},
      {"{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}in{% endcall %}", "<in>"},
      {"{% macro f() %}{{ caller(1) }}{% endmacro %}{% call(x) f() %}{{ x }}{% endcall %}", "1"},
      {"{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f() }}", "[]"},
  });
}

TEST(Jinja, Filters) {
  Check({
      {"{{ ' a '|trim }}|{{ 'abc'|upper }}|{{ 'aB c'|title }}|{{ 'aBC'|capitalize }}|{{ 'ÄÖ'|lower }}",
       "a|ABC|Ab C|Abc|äö"},
      {"{{ x|default('d') }} {{ ''|default('d', true) }} {{ none|default('d') }}", "d d None"},
      {"{{ [3,1,2]|sort|join(',') }} {{ ['b','A']|sort }} {{ [1,2]|reverse|list }} {{ 'ab'|reverse }}",
       "1,2,3 ['A', 'b'] [2, 1] ba"},
      {"{{ [{'a': 1}, {'a': 2}]|map(attribute='a')|list }} {{ ['a']|map('upper')|first }}", "[1, 2] A"},
      {"{{ [1,2,3]|select('odd')|list }} {{ [1,2,3]|reject('odd')|list }} {{ [0,1]|select|list }}",
       "[1, 3] [2] [1]"},
      {"{{ [{'r': 'u'}, {'r': 'a'}]|selectattr('r', 'equalto', 'a')|list }} {{ [{'x': 1}, "
       "{}]|rejectattr('x')|list }}",
       "[{'r': 'a'}] [{}]"},
      {"{{ {'b': 1, 'a': 2}|dictsort }} {{ {'a': 1}|items|list }}", "[('a', 2), ('b', 1)] [('a', 1)]"},
      {"{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}", "a\n  b\n\n  c|  a\n  b"},
      {"{{ '42'|int + 1 }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ '1.5'|float }} {{ 2.5|round }} {{ "
       "3.14159|round(2) }}",
       "43 7 3 1.5 2.0 3.14"},
      {"{{ [1,2,2]|unique|list }} {{ [1,5,3]|max }} {{ [2,1]|min }} {{ [1,2]|sum }} {{ 'a b'|wordcount }}",
       "[1, 2] 5 1 3 2"},
      {"{{ '<&>'|e }} {{ '<b>'|safe }} {{ 'aa'|replace('a', 'b') }} {{ 5|string + '!' }}",
       "&lt;&amp;&gt; <b> bb 5!"},
      {"{% for k, g in [{'a':1,'b':2},{'a':1,'b':3}]|groupby('a') %}{{ k }}:{{ g|length }}{% endfor %}",
       "1:2"},
      {"{{ [1,2,3]|batch(2)|list }}", "[[1, 2], [3]]"},
  });
}

TEST(Jinja, WritesJsonAsPythonDoes) {
  Check(
      {
          {"{{ v|tojson }}", R"({"a": [1, 2.0, null, true], "b": "é\"\n<", "c": {}, "d": []})"},
          {"{{ v.a|tojson(indent=2) }}", "[\n  1,\n  2.0,\n  null,\n  true\n]"},
          {"{{ v.c|tojson(indent=2) }}{{ 'é🦙'|tojson(ensure_ascii=true) }}", R"({}"\u00e9\ud83e\udd99")"},
          {"{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }}", R"({"a":2,"b":1})"},
      },
      R"({"v": {"a": [1, 2.0, null, true], "b": "é\"\n<", "c": {}, "d": []}})");
}

TEST(Jinja, StringMethods) {
  Check({
      {"{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\na'.lstrip('\n') }}|{{ 'a  '.rstrip() }}|",
       "a|a|a|a|"},
      {"{{ 'a,b,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.split(none, "
       "1) }}",
       "['a', 'b', 'c'] ['a', 'b'] ['a,b', 'c'] ['a', 'b c']"},
      {"{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.find('c') }} {{ "
       "'abc'.find('z') }}",
       "True True 2 -1"},
      {"{{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.upper() }} {{ '-'.join(['a', 'b']) }} {{ 'aab'.count('a') "
       "}}",
       "a-bX AB a-b 2"},
      {"{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ ''.isdigit() "
       "}}",
       "True True True True False"},
      {"{{ 'a\nb'.splitlines() }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ '{} {x} {{}}'.format(1, x=2) "
       "}}",
       "['a', 'b'] x 1 2 {}"},
      {"{{ {'a': 1}.get('a') }} {{ {}.get('a') }} {{ {}.get('a', 2) }} {{ {'a': 1}.keys()|list }} {{ {'a': "
       "1}.values()|list }}",
       "1 None 2 ['a'] [1]"},
  });
}

TEST(Jinja, Tests) {
  Check({
      {"{{ x is defined }} {{ x is undefined }} {{ 1 is defined and 2 is number }} {{ x is not defined }}",
       "False True True True"},
      {"{{ none is none }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is iterable "
       "}} {{ 1 is iterable }}",
       "True True True True True False"},
      {"{{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ false is false "
       "}} {{ 1 is true }}",
       "True False True True True False"},
      {"{{ 4 is divisibleby 2 }} {{ 3 is odd }} {{ 1 is in [1] }} {{ 'a' is eq('a') }} {{ 2 is gt 1 }} {{ "
       "none is sameas none }}",
       "True True True True True True"},
      {"{{ tools is none }} {{ tools is iterable }} {{ documents is none }} {{ range is callable }}",
       "True False True True"},
  });
}

TEST(Jinja, KnowsTheTimeItIsGiven) {
  Check({{"{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %j %-d %p') }}",
          "2026-07-25 17:20:00 July Jul Saturday 206 25 PM"},
         {"{{ strftime_now('%d %b %Y%Z%%') }}", "25 Jul 2026%"}});
}

TEST(Jinja, NamesTheLineAndTheReason) {
  const auto fails = [](std::string_view source, const char* reason) {
    EXPECT_THAT(Render(source), HasSubstr(reason)) << source;
    EXPECT_THAT(Render(source), HasSubstr("error: chat template")) << source;
  };
  fails("\n\n{{ raise_exception('no such role') }}", "line 3: no such role");
  fails("{{ x.y }}", "line 1: 'x' is undefined");
  fails("{{ messages[0].role }}", "has no element 0");
  fails("\n{{ 'a' + 1 }}", "line 2: unsupported operands of +: str and int");
  fails("{{ 'a' + x }}", "'x' is undefined");
  fails("{{ x() }}", "'x' is undefined");
  fails("{{ 1() }}", "cannot be called");
  fails("{{ 1|nope }}", "unknown filter 'nope'");
  fails("{{ 1 is nope }}", "unknown test 'nope'");
  fails("{{ 1 / 0 }}", "division by zero");
  fails("{{ 9223372036854775807 + 1 }}", "64 bits");
  fails("{{ 99999999999999999999 }}", "too large");
  fails("{% for x in 1 %}{% endfor %}", "'int' is not iterable");
  fails("{{ none|length }}", "no length");
  fails("{% set x.y = 1 %}", "no namespace");
  fails("{% set a, b = [1] %}", "1 values for 2 names");
  fails("{{ [].append(1) }}", "cannot be changed");
  fails("{{ namespace()|tojson }}", "no JSON form");
  fails("{{ x|tojson }}", "'x' is undefined");
  fails("{% macro f() %}{% endmacro %}{{ f(1) }}", "at most 0");
  fails("{{ 'a'.split(1, 2, 3) }}", "at most 2");
  fails("{{ 'a'|trim(nope=1) }}", "no parameter 'nope'");
  fails("a\n{% if x %}", "line 2");
  fails("{% if x %}\n{{ 1 ", "not closed");
  fails("{# x", "not closed with #}");
  fails("{{ 'x }}", "a string is not closed");
  fails("{% endif %}", "unknown statement 'endif'");
  fails("{% include 'x' %}", "unknown statement 'include'");
  fails("{% break %}", "outside of a loop");
  fails("{{ (1 }}", "closes nothing");
  fails("{{ (1 2) }}", "expected ')', found '2'");
  fails("{{ 1 ? 2 }}", "unexpected character '?'");
  fails("{% raw %}", "raw is not closed");
  fails("{{ '\\ud800' }}", "names no character");
}

TEST(Jinja, StopsWhatWouldNotEnd) {
  const auto stops = [](const std::string& source, const char* reason) {
    const std::string result = Render(source);
    EXPECT_THAT(result.substr(0, 300), HasSubstr(reason)) << source.substr(0, 200);
  };
  stops("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nest too deep");
  stops("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "too much work");
  stops("{{ range(1000000)|list }}", "at most 100000");
  stops("{{ 'x' * 10 ** 12 }}", "too large");
  stops("{{ [0] * 10 ** 12 }}", "too large");
  stops("{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "too much work");
  stops(
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
      "ns.s }}",
      "too much work");
  stops("{% set ns = namespace(s=[1]) %}{% for i in range(1000) %}{% set ns.s = [ns.s] %}{% endfor %}",
        "nest too deep");
  stops(
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(12) %}{% set ns.s = ns.s ~ ns.s ~ "
      "ns.s %}{% endfor %}"
      "{% for i in range(100) %}{{ ns.s }}{% endfor %}",
      "error");
  stops("{{ 'a'.replace('', 'x' * 1000000) * 100 }}", "error");
  stops("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}", "nested deeper than");
  stops("{{ " + std::string(100'000, '[') + std::string(100'000, ']') + " }}", "nested deeper than");
  stops("{{ " + std::string(100'000, '-') + "1 }}", "nested deeper than");
  std::string chain = "{{ 1";
  std::string filters = "{{ 1";
  std::string nots = "{{ ";
  std::string ifs;
  std::string attributes = "{{ a";
  for (int i = 0; i < 20'000; ++i) {
    chain += "+1";
    filters += "|abs";
    nots += "not ";
    ifs += "{% if 1 %}";
    attributes += ".a";
  }
  stops(chain + " }}", "levels");
  stops(filters + " }}", "levels");
  stops(nots + "1 }}", "nested deeper than");
  stops(ifs, "nested deeper than");
  stops(attributes + " }}", "levels");
  stops(std::string(2 << 20, 'x'), "at most");
}

TEST(Jinja, FreesNamespacesThatHoldEachOther) {  // what AddressSanitizer looks at
  EXPECT_EQ(
      Render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.self = [a] %}x"),
      "x");
  EXPECT_EQ(
      Render(
          "{% set a = namespace() %}{% for i in range(50) %}{% set a.n = namespace(p=a.n) %}{% endfor %}x"),
      "x");
  EXPECT_EQ(Render("{% set a = namespace() %}{% macro f() %}{% endmacro %}{% set a.f = f %}{{ a.f() }}x"),
            "x");
}

TEST(Jinja, SurvivesEveryTruncationAndRandomEdits) {
  const std::string source =
      "{%- macro m(a, b=[1, {'k': 'v'}]) -%}{{ a ~ b[0:1]|tojson }}{%- endmacro -%}{% set ns = "
      "namespace(x=1) %}"
      "{% for k, v in {'a': 1}.items() if v is defined %}{% if loop.last and k != 'z' %}{{ m(k, b=[v]) }}{% "
      "elif not v %}"
      "{{ 'a\\n' + k[::-1] }}{% else %}{% set ns.x = ns.x + 1 %}{% endif %}{% endfor %}{# c #}{{ (1, "
      "2)|join('-') }}";
  EXPECT_EQ(Render(source), "a[1]1-2");
  for (size_t length = 0; length < source.size(); ++length) Render(source.substr(0, length));
  uint32_t seed = 1;
  const std::string letters = "{}%#-+[]()'\"|.,:~ \n\\ax1*/=<";
  for (int i = 0; i < 3000; ++i) {
    std::string edited = source;
    for (int k = 0; k < 3; ++k) {
      seed = seed * 1664525 + 1013904223;
      edited[(seed >> 8) % edited.size()] = letters[(seed >> 3) % letters.size()];
    }
    Render(edited);
  }
}

}  // namespace
}  // namespace spillway
