#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace lamina::text_test {
namespace {

class ChatTemplateFolder : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ + "/" + name) << text; }
  std::string rendered(bool with_tools, const std::string& file = {}) const {
    const Result<ChatTemplates> templates = ChatTemplates::load(folder_, file);
    if (!templates.ok()) return "error: " + templates.error().message;
    const Result<const ChatTemplate*> chosen = templates->choose(with_tools);
    if (!chosen.ok()) return "error: " + chosen.error().message;
    const Json messages = Json::array();
    return joined_text((*chosen)->render({.messages = messages, .special_tokens = templates->special_tokens()}).value());
  }

  const std::string folder_ = testing::TempDir() + "chat_template_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ChatTemplateFolder, TokensAreTextOrObjects) {
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
                                     "chat_template": "{{ bos_token }}x{{ eos_token }}{{ pad_token is defined }}"})");
  EXPECT_EQ(rendered(false), "<s>x</s>False");
}

TEST_F(ChatTemplateFolder, NamedTemplates) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})");
  EXPECT_EQ(rendered(false), "plain");
  EXPECT_EQ(rendered(true), "tools");
}

TEST_F(ChatTemplateFolder, NamesWithoutADefault) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "a"}, {"name": "tool_use", "template": "b"}]})");
  EXPECT_EQ(rendered(true), "b");
  EXPECT_EQ(rendered(false), "error: no chat template is named \"default\"; there are: rag, tool_use");
}

TEST_F(ChatTemplateFolder, ItsFileBeforeTheConfigAndAGivenFileBeforeBoth) {
  write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "config"})");
  write("chat_template.jinja", "file");
  write("mine.jinja", "{{ bos_token }}mine");
  EXPECT_EQ(rendered(false), "file");
  EXPECT_EQ(rendered(false, folder_ + "/mine.jinja"), "<s>mine");
  EXPECT_NE(rendered(false, folder_ + "/none.jinja").find(folder_ + "/none.jinja"), std::string::npos);
}

TEST_F(ChatTemplateFolder, NoTemplate) {
  write("tokenizer_config.json", "{}");
  EXPECT_TRUE(ChatTemplates::load(folder_).value().empty());
  EXPECT_EQ(rendered(false), "error: the checkpoint has no chat template: give one with --chat-template");
}

TEST_F(ChatTemplateFolder, BrokenTemplatesAreNamed) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "a\n{% if %}"}]})");
  EXPECT_EQ(rendered(false), "error: " + folder_ +
                                 "/tokenizer_config.json: chat_template \"default\": line 2, column 7: expected an expression, "
                                 "found the end of the tag");
  write("tokenizer_config.json", R"({"chat_template": 1})");
  EXPECT_EQ(rendered(false),
            "error: " + folder_ + "/tokenizer_config.json: chat_template: expected a string or an array, found an integer");
}

TEST(ChatTemplate, ExtraWinsOverSpecialTokensAndTools) {
  const Json messages = Json::array(), tools = parse_json("[1]", "tools").value();
  const Json extra = parse_json(R"({"bos_token": "B", "tools": null, "x": true})", "extra").value();
  const SpecialTokens tokens = {{"bos_token", "<s>"}};
  const ChatTemplate compiled =
      ChatTemplate::compile("{{ bos_token }}{{ tools }}{{ x }}{{ add_generation_prompt }}{{ documents }}", "t").value();
  const std::vector<TemplateSpan> spans =
      compiled.render({.messages = messages, .tools = &tools, .add_generation_prompt = false, .extra = &extra, .special_tokens = tokens})
          .value();
  EXPECT_EQ(joined_text(spans), "BNoneTrueFalseNone");
}

TEST(ChatTemplate, TimesAreChecked) {
  EXPECT_EQ(parse_time("2025-07-04T09:08:07").value().tm_yday, 184);
  for (const char* text : {"", "2025-07-04", "2025-13-04T09:08:07", "2025-07-04T09:08:07Z", "2025-02-30T09:08:07", "2025-07-04T25:08:07"})
    EXPECT_EQ(parse_time(text).error().message, "\"" + std::string(text) + "\" is no time such as 2025-07-04T09:08:07");
}

}  // namespace
}  // namespace lamina::text_test
