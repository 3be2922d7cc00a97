// ChatTemplates: what a checkpoint folder holds.
#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "text/chat_template.h"
#include "text/json_node.h"

namespace lamina {
namespace {

using text::JsonNode;

constexpr std::string_view kTokenKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// "<s>" or {"content": "<s>", ...}; a null one is not defined at all.
Result<SpecialTokens> special_tokens_of(const JsonNode& config) {
  SpecialTokens tokens;
  for (const std::string_view key : kTokenKeys) {
    if (!config.has(key)) continue;
    LAMINA_ASSIGN(const JsonNode node, config.child(key));
    if (node.json().is_string()) {
      tokens.emplace_back(key, node.json().as_string());
    } else if (node.json().is_object()) {
      LAMINA_ASSIGN(std::string content, node.string("content"));
      tokens.emplace_back(key, std::move(content));
    } else {
      return node.expected("a string or an object with \"content\"");
    }
  }
  return tokens;
}

struct Source {
  std::string name, text, what;
};

/// "chat_template": one template, or [{"name": "default", "template": "..."}, ...].
Result<std::vector<Source>> sources_of(const JsonNode& config, const std::string& path) {
  std::vector<Source> sources;
  if (!config.has("chat_template")) return sources;
  LAMINA_ASSIGN(const JsonNode node, config.child("chat_template"));
  if (node.json().is_string()) {
    sources.push_back({"default", node.json().as_string(), path + ": chat_template"});
    return sources;
  }
  if (!node.json().is_array()) return node.expected("a string or an array");
  LAMINA_ASSIGN(const std::vector<JsonNode> items, config.array("chat_template"));
  for (const JsonNode& item : items) {
    LAMINA_ASSIGN(std::string name, item.string("name"));
    LAMINA_ASSIGN(std::string text, item.string("template"));
    std::string what = cat(path, ": chat_template \"", name, "\"");
    sources.push_back({std::move(name), std::move(text), std::move(what)});
  }
  return sources;
}

}  // namespace

Result<ChatTemplates> ChatTemplates::load(const std::string& folder, const std::string& template_file) {
  if (!is_directory(folder)) return error(folder, ": no such folder");
  ChatTemplates out;
  std::vector<Source> sources;
  const std::string config_path = folder + "/tokenizer_config.json";
  if (file_exists(config_path)) {
    LAMINA_ASSIGN(const std::string text, read_file(config_path));
    LAMINA_ASSIGN(const Json json, parse_json(text, config_path));
    const JsonNode config(json, config_path);
    if (!json.is_object()) return config.expected("an object");
    LAMINA_ASSIGN(out.special_tokens_, special_tokens_of(config));
    if (template_file.empty()) {
      LAMINA_ASSIGN(sources, sources_of(config, config_path));
    }
  }
  const std::string own_file = folder + "/chat_template.jinja";
  if (const std::string path = template_file.empty() ? own_file : template_file; !template_file.empty() || file_exists(own_file)) {
    LAMINA_ASSIGN(std::string text, read_file(path));
    sources = {{"default", std::move(text), path}};
  }
  for (const Source& source : sources) {
    LAMINA_ASSIGN(ChatTemplate compiled, ChatTemplate::compile(source.text, source.what));
    out.templates_.emplace_back(source.name, std::move(compiled));
  }
  return out;
}

Result<const ChatTemplate*> ChatTemplates::choose(bool with_tools) const {
  std::vector<std::string> names;
  for (const auto& [name, compiled] : templates_) names.push_back(name);
  const auto named = [&](std::string_view name) -> const ChatTemplate* {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? nullptr : &templates_[static_cast<size_t>(found - names.begin())].second;
  };
  const ChatTemplate* chosen = with_tools ? named("tool_use") : nullptr;
  if (chosen == nullptr) chosen = named("default");
  if (chosen == nullptr && templates_.size() == 1) chosen = &templates_.front().second;
  if (chosen != nullptr) return chosen;
  if (templates_.empty()) return error("the checkpoint has no chat template: give one with --chat-template");
  return error("no chat template is named \"default\"; there are: ", join(names, ", "));
}

}  // namespace lamina
