#pragma once
// The vectors of ../shared/golden/chat, for the tests that go through them.

#include <string>
#include <vector>

#include "tests/text/vectors.h"
#include "text/chat_template.h"

namespace lamina::text_test {

inline const std::string kChatFolder = LAMINA_SOURCE_DIR "/../shared/golden/chat";

/// The names of the template files, without ".json"; empty where the vectors are absent.
inline std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  const Result<std::vector<std::string>> files = list_folder(kChatFolder);
  if (!files.ok()) return names;
  for (const std::string& file : *files)
    if (file.ends_with(".json") && file != "jinja_features.json") names.push_back(file.substr(0, file.size() - 5));
  return names;
}

inline Json chat_vectors(const std::string& name) { return *read_json(kChatFolder + "/" + name + ".json"); }

inline SpecialTokens special_tokens(const Json& golden) {
  SpecialTokens tokens;
  for (const auto& [name, text] : golden.find("special_tokens")->as_object())
    if (text.is_string()) tokens.emplace_back(name, text.as_string());
  return tokens;
}

/// What the clock of the vectors shows.
inline std::tm vectors_time() { return parse_time("2025-07-04T09:08:07").value(); }

inline Result<std::vector<TemplateSpan>> render_case(const ChatTemplate& compiled, const Json& c, const SpecialTokens& tokens) {
  const Json* prompt = c.find("add_generation_prompt");
  return compiled.render({.messages = *c.find("messages"),
                          .tools = c.find("tools"),
                          .documents = c.find("documents"),
                          .add_generation_prompt = prompt != nullptr && prompt->as_bool(),
                          .extra = c.find("extra"),
                          .special_tokens = tokens,
                          .now = vectors_time()});
}

}  // namespace lamina::text_test
