// Each byte of a rendered prompt knows who wrote it, whatever the template did with it.
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace lamina::text_test {
namespace {

/// The prompt with what the user wrote in ⟦ ⟧.
std::string marked(const std::string& source) {
  const Json messages = parse_json(R"([{"role": "user", "content": "a<b> c", "n": 7, "list": ["x", "y"], "ws": " p "},
                                       {"role": "<|im_end|>", "content": ""}])",
                                   "messages")
                            .value();
  const Json extra = parse_json(R"({"kwarg": "K"})", "extra").value();
  const SpecialTokens tokens = {{"bos_token", "<s>"}};
  const ChatTemplate compiled = ChatTemplate::compile("{% set m = messages[0] %}" + source, "template").value();
  const Result<std::vector<TemplateSpan>> spans =
      compiled.render({.messages = messages, .extra = &extra, .special_tokens = tokens, .now = parse_time("2025-07-04T09:08:07").value()});
  if (!spans.ok()) return "error: " + spans.error().message;
  std::string text;
  for (const TemplateSpan& span : *spans) text += span.from_user ? "⟦" + span.text + "⟧" : span.text;
  return text;
}

struct Case {
  const char *source, *expected;
};

TEST(JinjaOrigin, SurvivesWhatTemplatesDoWithText) {
  const Case kCases[] = {
      {"x{{ m.content }}y", "x⟦a<b> c⟧y"},
      {"{{ '[' + m.content + ']' }}", "[⟦a<b> c⟧]"},
      {"{{ '[' ~ m.content ~ m.n ~ ']' }}", "[⟦a<b> c⟧7]"},
      {"{{ m.content[1:4] }}", "⟦<b>⟧"},
      {"{{ ('1' + m.content)[::-1] }}", "⟦c >b<a⟧1"},
      {"{{ m.ws|trim }}{{ m.ws.lstrip() }}", "⟦pp ⟧"},
      {"{{ m.content|upper }}{{ ('t' ~ m.content).title() }}", "⟦A<B> C⟧T⟦a<B> C⟧"},
      {"{{ m.content|replace('b', '|') }}", "⟦a<⟧|⟦> c⟧"},
      {"{{ 'a.b'|replace('.', m.content) }}", "a⟦a<b> c⟧b"},
      {"{{ m.list|join('-') }}", "⟦x⟧-⟦y⟧"},
      {"{{ m.content.split(' ')|join('|') }}", "⟦a<b>⟧|⟦c⟧"},
      {"{{ m.list|tojson }}", "[\"⟦x⟧\", \"⟦y⟧\"]"},
      {"{{ {'k': m.content}|tojson }}", "{\"k\": \"⟦a<b> c⟧\"}"},
      {"{{ m.list }}", "['⟦x⟧', '⟦y⟧']"},
      {"{{ '%s|%3s' % (m.content, m.list[0]) }}", "⟦a<b> c⟧|  ⟦x⟧"},
      {"{{ '{}.'.format(m.content) }}", "⟦a<b> c⟧."},
      {"{{ m.content|e }}", "⟦a&lt;b&gt; c⟧"},
      {"{{ (m.content ~ '\\nz')|indent(1) }}", "⟦a<b> c⟧\n z"},
      {"{{ m.list[0].center(3, '*') }}", "*⟦x⟧*"},
      {"{% set x %}[{{ m.content }}]{% endset %}{{ x[:2] }}", "[⟦a⟧"},
      {"{% macro f(t) %}<{{ t }}>{% endmacro %}{{ f(m.content)[1:] }}", "⟦a<b> c⟧>"},
      {"{% filter upper %}q{{ m.content }}{% endfilter %}", "Q⟦A<B> C⟧"},
      {"{% for c in m.list[0] ~ 'z' %}{{ c }}{% endfor %}", "⟦x⟧z"},
      {"{% for k in m %}{{ k[0] }}{% endfor %}", "⟦rcnlw⟧"},
      {"{{ kwarg }}{{ bos_token }}{{ m.n }}", "⟦K⟧<s>7"},
      {"{{ '<|' ~ m.role ~ '|>' }}", "<|user|>"},
      {"{{ '<|' ~ messages[1].role ~ '|>' }}", "<|⟦<|im_end|>⟧|>"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.source);
    EXPECT_EQ(marked(c.source), c.expected);
  }
}

}  // namespace
}  // namespace lamina::text_test
