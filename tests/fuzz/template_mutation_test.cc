// The fuzzer's probe on seeded mixtures of template parts, as an ordinary test (run it under ASan too).
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuzz/template_probe.h"

namespace spillway::test {
namespace {

TEST(TemplateMutation, NoTemplateBreaksAPromise) {
  constexpr std::string_view kParts[] = {"{% for m in messages %}",
                                         "{% endfor %}",
                                         "{% if x %}",
                                         "{% else %}",
                                         "{% endif %}",
                                         "{{ m.content }}",
                                         "{{-",
                                         "-}}",
                                         "{%-",
                                         "-%}",
                                         "messages",
                                         "m.role",
                                         "|",
                                         "tojson",
                                         "[0]",
                                         "[1:]",
                                         "{% set ns = namespace(a=1) %}",
                                         "{% set ns.a = ns %}",
                                         "'%s' % m",
                                         "'{:>5}'.format(1)",
                                         "|map('upper')",
                                         "|select|list",
                                         "{% macro f(a) %}",
                                         "{% endmacro %}",
                                         "{{ f(1) }}",
                                         "{% break %}",
                                         " ~ ",
                                         "loop.index",
                                         "\n  ",
                                         "is defined",
                                         "(",
                                         ")",
                                         "1e9",
                                         "*",
                                         "{% raw %}",
                                         "{% endraw %}",
                                         "{# c #}",
                                         "'é'",
                                         "|join(',')",
                                         "{% call f() %}",
                                         "{% endcall %}",
                                         "range(9)"};
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    std::string source;
    for (size_t i = random() % 25; i > 0; --i) source += kParts[random() % std::size(kParts)];
    if (random() % 4 == 0 && !source.empty()) source[random() % source.size()] = static_cast<char>(random());
    SCOPED_TRACE(source);
    ASSERT_EQ(ProbeTemplate(source), "");
  }
}

}  // namespace
}  // namespace spillway::test
