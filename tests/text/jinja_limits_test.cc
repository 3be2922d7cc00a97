// No template and no messages make a render run long, eat memory or overflow the stack.
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace lamina::text_test {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string error_of(const std::string& source, const Json& messages = Json::array()) {
  const Result<ChatTemplate> compiled = ChatTemplate::compile(source, "template");
  if (!compiled.ok()) return compiled.error().message;
  const Result<std::vector<TemplateSpan>> spans = compiled->render({.messages = messages});
  return spans.ok() ? "gives " + joined_text(*spans) : spans.error().message;
}

struct Case {
  std::string source;
  const char* limit;  // what the error names
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string error = error_of(c.source);
    EXPECT_NE(error.find(c.limit), std::string::npos) << c.source.substr(0, 100) << "\n" << error.substr(0, 200);
  }
}

TEST(JinjaLimits, StepsEndLoops) {
  const std::string doubled = "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}";
  expect_refused({
      {"{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}", "steps"},
      {"{% set a = 'a' * 2000000 %}{% set b = 'a' * 1000000 ~ 'b' %}{% for i in range(100000) %}{{ b in a }}{% endfor %}", "steps"},
      {"{% set l = range(100000)|list %}{% for i in range(100000) %}{{ -1 in l }}{% endfor %}", "steps"},
      {doubled + "{{ ns.s }}", "steps"},
      {doubled + "{{ ns.s|tojson }}", "steps"},
  });
}

TEST(JinjaLimits, MemoryEndsGrowth) {
  expect_refused({
      {"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "MiB of memory"},
      {"{{ 'a' * 10 ** 15 }}", "MiB of memory"},
      {"{{ [0] * 10 ** 12 }}", "MiB of memory"},
      {"{% set s = 'a' * 1000000 %}{{ s.replace('a', s) }}", "MiB of memory"},
      {"{{ 'a'|center(10 ** 14) }}", "MiB of memory"},
      {"{{ '%1000000000d' % 1 }}", "over 100000"},
      {"{{ [1]|tojson(indent=10 ** 12) }}", "at most 100000"},
      {"{{ 10 ** 10 ** 10 }}", "127 bits"},
      {"{{ range(100001) }}", "more than 100000 elements"},
      {"{{ range(10 ** 30) }}", "too large"},
  });
}

TEST(JinjaLimits, DepthEndsRecursion) {
  expect_refused({
      {"{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(0) }}", "200 calls"},
      {"{% macro f() %}{{ caller() }}{% call f() %}{% endcall %}{% endmacro %}{% call f() %}{% endcall %}", "200 calls"},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "200 calls"},
      {"{% macro f(x) %}" + repeated("{% if 1 %}", 50) + "{{ " + repeated("[", 50) + "f(x)" + repeated("]", 50) + " }}" +
           repeated("{% endif %}", 50) + "{% endmacro %}{{ f(0) }}",
       "3000 evaluations"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}", "256 lists"},
  });
}

TEST(JinjaLimits, NestingOfTheSource) {
  expect_refused({
      {"{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}", "more than 200"},
      {"{{ " + repeated("not ", 100000) + "1 }}", "more than 200"},
      {"{{ 1" + repeated(" if 1", 100000) + " }}", "more than 200"},
      {"{{ a" + repeated(".b", 100000) + " }}", "more than 200"},
      {"{{ a" + repeated("|trim", 100000) + " }}", "more than 200"},
      {repeated("{% if 1 %}", 10000), "more than 200"},
      {std::string(5 << 20, 'x'), "bytes; at most 4194304"},
  });
  EXPECT_EQ(error_of("{{ 0" + repeated(" + 1", 10000) + " }}"), "gives 10000");
  EXPECT_EQ(error_of("{% if 0 %}" + repeated("{% elif 0 %}", 10000) + "{% else %}x{% endif %}"), "gives x");
}

TEST(JinjaLimits, NestingOfTheMessages) {
  Json deep = Json::array();
  for (int i = 0; i < 1000; ++i) {
    Json outer = Json::array();
    outer.push(std::move(deep));
    deep = std::move(outer);
  }
  EXPECT_NE(error_of("x", deep).find("256 lists and objects"), std::string::npos);
}

TEST(JinjaLimits, CyclesThroughNamespacesDoNoHarm) {
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = [ns] %}{{ ns.a.a.b[0].b|length }}"), "gives 1");
}

TEST(JinjaLimits, InvalidUtf8OfTheSource) { EXPECT_EQ(error_of("ab\xff"), "template: invalid UTF-8 at byte 2"); }

}  // namespace
}  // namespace lamina::text_test
