// The plain-text cases of jinja_cases.txt.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/strings.h"
#include "text/chat_template.h"

namespace lamina::text_test {
namespace {

struct Case {
  std::string name, source, variables = "{}", text;
  bool fails = false;
};

/// Sections begin with "=== " and "--- "; their text ends before the line end that precedes the next one.
std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::string* section = nullptr;
  for (const std::string& line : split(read_file(path).value(), '\n')) {
    if (line.starts_with("=== ")) {
      cases.push_back({.name = line.substr(4)});
      section = &cases.back().source;
    } else if (line.starts_with("--- with ")) {
      cases.back().variables = line.substr(9);
    } else if (line == "--- gives" || line == "--- fails") {
      cases.back().fails = line == "--- fails";
      section = &cases.back().text;
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  for (Case& c : cases) {
    c.source.pop_back();
    while (c.text.ends_with('\n')) c.text.pop_back();
  }
  return cases;
}

Result<std::string> render(const Case& c) {
  LAMINA_ASSIGN(const ChatTemplate compiled, ChatTemplate::compile(c.source, "template"));
  LAMINA_ASSIGN(const Json variables, parse_json(c.variables, c.name));
  const Json messages = Json::array();
  LAMINA_ASSIGN(const std::vector<TemplateSpan> spans,
                compiled.render({.messages = messages, .extra = &variables, .now = parse_time("2025-07-04T09:08:07").value()}));
  return joined_text(spans);
}

TEST(JinjaCases, GiveTheirTextOrError) {
  const std::vector<Case> cases = read_cases(LAMINA_SOURCE_DIR "/tests/text/jinja_cases.txt");
  EXPECT_GE(cases.size(), 40u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Result<std::string> text = render(c);
    if (!c.fails) {
      EXPECT_EQ(text.ok() ? *text : "error: " + text.error().message, c.text);
    } else if (text.ok()) {
      ADD_FAILURE() << "gives " << *text;
    } else if (c.name.starts_with("the message of raise_exception")) {
      EXPECT_EQ(text.error().message, c.text);
    } else {
      EXPECT_NE(text.error().message.find(c.text), std::string::npos) << text.error().message;
    }
  }
}

}  // namespace
}  // namespace lamina::text_test
