// Chat templates behind the API: bad ones stop the start or fail their request, and users cannot write control tokens.

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

std::string ask(std::string_view content, std::string_view fields = "") {
  return cat(R"({"messages":[{"role":"user","content":")", content, R"("}],"max_tokens":1,"temperature":0,"ignore_eos":true)", fields, "}");
}

TEST(ChatTemplates, OneThatDoesNotCompileStopsTheStart) {
  const ToyFolder toy;
  toy.folder().write("chat_template.jinja", "{% if %}");
  const auto engine = Engine::start(toy.options());
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("--chat-template"), std::string::npos) << engine.error().message;
  EXPECT_NE(engine.error().message.find("chat_template.jinja"), std::string::npos) << engine.error().message;
}

TEST(ChatTemplates, AFileTakesThePlaceOfTheCheckpointsOwn) {
  const ToyFolder toy;
  toy.folder().write("chat_template.jinja", "{% if %}");
  toy.folder().write("mine.jinja", "{{ messages[0].content }}!");
  EngineOptions options = toy.options();
  options.chat_template = toy.folder().file("mine.jinja");
  LiveServer live(options);
  const Response response = live.post("/v1/chat/completions", ask("abc"));
  EXPECT_EQ(response.json().find("usage")->find("prompt_tokens")->as_integer(), 4) << response.body;
  options.chat_template = toy.folder().file("absent.jinja");
  const auto refused = Engine::start(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("absent.jinja"), std::string::npos);
}

TEST(ChatTemplates, OnesThatRaiseLoopOrRecurseFailTheirRequestAlone) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{{ raise_exception('roles must alternate') }}", "roles must alternate"},
      {"{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}", "chat_template.jinja"},
      {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "chat_template.jinja"},
      {"{{ messages[0].content.nothing.at.all }}", "chat_template.jinja"},
      {"{{ 'x' * 1000000000 }}", "chat_template.jinja"},
  };
  for (const auto& [text, wanted] : cases) {
    SCOPED_TRACE(std::string(text));
    const ToyFolder toy;
    toy.folder().write("chat_template.jinja", text);
    LiveServer live(toy.options());
    const Response response = live.post("/v1/chat/completions", ask("abc"));
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_NE(response.error().find(wanted), std::string::npos) << response.body;
    EXPECT_NE(response.error().find("|messages|chat_template_error"), std::string::npos) << response.body;
    live.expect_at_rest();
  }
}

TEST(ChatTemplates, WithoutOneChatIsRefusedAndTheRestServed) {
  const ToyFolder toy;
  LiveServer live(toy.options());
  const Response response = live.post("/v1/chat/completions", ask("abc"));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.error().find("--chat-template"), std::string::npos) << response.body;
  live.expect_at_rest();
}

TEST(ChatTemplates, UsersWriteTextAndNoControlTokens) {
  const ToyFolder toy;
  toy.folder().write("chat_template.jinja", "<256>{{ messages[0].content }}<257>");
  LiveServer live(toy.options());
  const auto tokens = [&](std::string_view content) {
    return live.post("/v1/chat/completions", ask(content)).json().find("usage")->find("prompt_tokens")->as_integer();
  };
  EXPECT_EQ(tokens("abcde"), 7);
  EXPECT_EQ(tokens("<257>"), 7);
  EXPECT_EQ(tokens("<257><256>a"), 13);
}

TEST(ChatTemplates, GetTheVariablesOfTheRequest) {
  const ToyFolder toy;
  toy.folder().write("chat_template.jinja",
                     "{{ messages[0].content }}{{ greeting }}{{ reasoning_effort }}{% if add_generation_prompt %}>>{% endif %}");
  LiveServer live(toy.options());
  const auto tokens = [&](std::string_view fields) {
    return live.post("/v1/chat/completions", ask("a", fields)).json().find("usage")->find("prompt_tokens")->as_integer();
  };
  EXPECT_EQ(tokens(""), 3);
  EXPECT_EQ(tokens(R"(,"add_generation_prompt":false)"), 1);
  EXPECT_EQ(tokens(R"(,"chat_template_kwargs":{"greeting":"hello"})"), 8);
  EXPECT_EQ(tokens(R"(,"reasoning_effort":"high")"), 7);
}

}  // namespace
}  // namespace lamina::server_test
