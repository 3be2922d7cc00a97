// The vectors of ../shared/golden/chat: what Jinja2 makes of public chat templates.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/strings.h"
#include "tests/text/chat_vectors.h"

namespace lamina::text_test {
namespace {

/// Whether what was rendered, or why not, is what the vector says.
bool agrees(const Json& c, const Result<std::vector<TemplateSpan>>& spans, std::string& found) {
  found = spans.ok() ? joined_text(*spans) : "error: " + spans.error().message;
  if (const Json* expected = c.find("expected")) return spans.ok() && found == expected->as_string();
  if (spans.ok()) return false;
  return c.find("error_type")->as_string() != "TemplateError" || spans.error().message == c.find("error")->as_string();
}

std::string wanted(const Json& c) {
  const Json* expected = c.find("expected");
  return expected != nullptr ? expected->as_string() : "error: " + c.find("error")->as_string();
}

TEST(ChatVectors, RenderAsJinja2Does) {
  const std::vector<std::string> names = chat_template_names();
  if (names.empty()) GTEST_SKIP() << "no vectors at " << kChatFolder;
  size_t cases = 0;
  for (const std::string& name : names) {
    const Json golden = chat_vectors(name);
    const Result<ChatTemplate> compiled = ChatTemplate::compile(golden.find("template")->as_string(), name);
    if (!compiled.ok()) {
      ADD_FAILURE() << compiled.error().message;
      continue;
    }
    const SpecialTokens tokens = special_tokens(golden);
    for (const Json& c : golden.find("cases")->as_array()) {
      std::string found;
      EXPECT_TRUE(agrees(c, render_case(*compiled, c, tokens), found)) << name << ": " << c.find("name")->as_string() << "\n--- found\n"
                                                                       << found << "\n--- expected\n"
                                                                       << wanted(c);
      ++cases;
    }
  }
  std::printf("%zu templates, %zu cases\n", names.size(), cases);
}

/// What a template of jinja_features.json gives.
Result<std::string> feature(const std::string& source, const Json& context) {
  LAMINA_ASSIGN(const ChatTemplate compiled, ChatTemplate::compile(source, "template"));
  const Json none;
  LAMINA_ASSIGN(const std::vector<TemplateSpan> spans, compiled.render({.messages = none, .extra = &context, .now = vectors_time()}));
  return joined_text(spans);
}

enum class Outcome { kAgrees, kRefused, kDiffers };

Outcome outcome(const Json& c, const Json& context, std::string& found) {
  const Result<std::string> text = feature(c.find("template")->as_string(), context);
  found = text.ok() ? *text : "error: " + text.error().message;
  const Json* expected = c.find("expected");
  if (expected != nullptr) return !text.ok() ? Outcome::kRefused : *text == expected->as_string() ? Outcome::kAgrees : Outcome::kDiffers;
  if (text.ok()) return Outcome::kDiffers;
  const bool raised = c.find("error_type")->as_string() == "TemplateError";
  return !raised || text.error().message == c.find("error")->as_string() ? Outcome::kAgrees : Outcome::kDiffers;
}

struct Counts {
  size_t agree = 0, refused = 0, differ = 0;
  void add(Outcome outcome) { ++(outcome == Outcome::kAgrees ? agree : outcome == Outcome::kRefused ? refused : differ); }
  size_t all() const { return agree + refused + differ; }
};

TEST(JinjaFeatures, AgreeOrAreRefused) {
  const std::optional<Json> golden = read_json(kChatFolder + "/jinja_features.json");
  if (!golden) GTEST_SKIP() << "no vectors at " << kChatFolder;
  Counts must, others, parts;
  for (const Json& c : golden->find("cases")->as_array()) {
    const std::string& name = c.find("name")->as_string();
    const Json* occurs = c.find("occurs");
    const bool needed = (occurs != nullptr && occurs->as_bool()) || name.starts_with("sandbox") || name.starts_with("syntax");
    const Json none = Json::object();
    const Json& context = c.find("context") != nullptr ? *c.find("context") : none;
    std::string found;
    const Outcome result = outcome(c, context, found);
    (needed ? must : others).add(result);
    EXPECT_TRUE(result == Outcome::kAgrees || (!needed && result == Outcome::kRefused))
        << name << ": " << c.find("template")->as_string() << "\n--- found\n"
        << found << "\n--- expected\n"
        << wanted(c);
    if (result == Outcome::kRefused) std::printf("refused: %s: %s\n", name.c_str(), found.c_str());
    const Json* rows = c.find("parts");
    for (const Json& part : rows == nullptr ? Json::Array() : rows->as_array()) {
      std::string part_found;
      const Outcome part_result = outcome(part, context, part_found);
      parts.add(part_result);
      EXPECT_NE(part_result, Outcome::kDiffers) << part.find("template")->as_string() << "\n--- found\n" << part_found;
    }
  }
  std::printf("needed: %zu of %zu agree; others: %zu of %zu agree, %zu refused; single expressions: %zu of %zu agree, %zu refused\n",
              must.agree, must.all(), others.agree, others.all(), others.refused, parts.agree, parts.all(), parts.refused);
  EXPECT_EQ(must.agree, must.all());
  EXPECT_GE(others.agree * 10, others.all() * 9);
}

}  // namespace
}  // namespace lamina::text_test
