#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "apps/command.h"
#include "base/file.h"
#include "base/strings.h"
#include "text/chat_template.h"

namespace lamina {
namespace {

struct Options {
  std::string model, messages, tools, chat_template;
  std::string extra = "{}";
  bool no_generation_prompt = false, jsonl = false;
};

Result<Json> json_file(const std::string& path) {
  LAMINA_ASSIGN(const std::string text, read_file(path));
  return parse_json(text, path);
}

/// The member when it is there and not null.
const Json* member(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<Json> rendered(const ChatTemplate& compiled, const ChatTemplate::Inputs& inputs) {
  LAMINA_ASSIGN(const std::vector<TemplateSpan> spans, compiled.render(inputs));
  Json out;
  out.set("text", joined_text(spans));
  return out;
}

/// Renders requests, one a line. A template that a line brings is compiled once for all lines in a row that bring it.
class Lines {
 public:
  explicit Lines(const ChatTemplates& templates) : templates_(templates) {}

  Result<Json> answer(const std::string& line) {
    LAMINA_ASSIGN(const Json request, parse_json(line, "line"));
    const Json* messages = member(request, "messages");
    if (messages == nullptr || !messages->is_array()) return error("a line needs \"messages\", an array");
    const Json* prompt = member(request, "add_generation_prompt");
    if (prompt != nullptr && !prompt->is_bool()) return error("\"add_generation_prompt\" must be true or false, found ", prompt->dump());
    ChatTemplate::Inputs inputs{.messages = *messages,
                                .tools = member(request, "tools"),
                                .documents = member(request, "documents"),
                                .add_generation_prompt = prompt == nullptr || prompt->as_bool(),
                                .extra = member(request, "extra"),
                                .special_tokens = templates_.special_tokens(),
                                .now = local_time()};
    if (const Json* now = member(request, "now")) {
      if (!now->is_string()) return error("\"now\" must be a string, found ", now->dump());
      LAMINA_ASSIGN(inputs.now, parse_time(now->as_string()));
    }
    LAMINA_ASSIGN(const ChatTemplate* chosen, choose(member(request, "template"), inputs.tools != nullptr));
    return rendered(*chosen, inputs);
  }

 private:
  Result<const ChatTemplate*> choose(const Json* source, bool with_tools) {
    if (source == nullptr) return templates_.choose(with_tools);
    if (!source->is_string()) return error("\"template\" must be a string, found ", source->kind_name());
    if (!compiled_ || source_ != source->as_string()) {
      compiled_.reset();
      source_ = source->as_string();
      LAMINA_ASSIGN(compiled_, ChatTemplate::compile(source_, "template"));
    }
    return &*compiled_;
  }

  const ChatTemplates& templates_;
  std::string source_;
  std::optional<ChatTemplate> compiled_;  // of source_
};

void answer_lines(const ChatTemplates& templates) {
  Lines lines(templates);
  for (std::string line; std::getline(std::cin, line);) {
    Result<Json> answer = lines.answer(line);
    Json fault;
    if (!answer.ok()) fault.set("error", answer.error().message);
    print_json(answer.ok() ? *answer : fault);
  }
}

Status check(const Options& options) {
  if (options.messages.empty() != options.jsonl) return error("exactly one of --messages and --jsonl is needed");
  LAMINA_ASSIGN(const Json extra, parse_json(options.extra, "--template-kwargs"));
  if (!extra.is_object()) return error("--template-kwargs must be a JSON object, found ", extra.kind_name());
  return {};
}

Status run(const Options& options) {
  LAMINA_ASSIGN(const ChatTemplates templates, ChatTemplates::load(options.model, options.chat_template));
  if (options.jsonl) {
    answer_lines(templates);
    return {};
  }
  LAMINA_ASSIGN(const Json messages, json_file(options.messages));
  if (!messages.is_array()) return error(options.messages, ": expected an array of messages, found ", messages.kind_name());
  LAMINA_ASSIGN(const Json extra, parse_json(options.extra, "--template-kwargs"));
  std::optional<Json> tools;
  if (!options.tools.empty()) {
    LAMINA_ASSIGN(tools, json_file(options.tools));
  }
  LAMINA_ASSIGN(const ChatTemplate* chosen, templates.choose(tools.has_value()));
  LAMINA_ASSIGN(const Json text, rendered(*chosen, {.messages = messages,
                                                    .tools = tools ? &*tools : nullptr,
                                                    .add_generation_prompt = !options.no_generation_prompt,
                                                    .extra = &extra,
                                                    .special_tokens = templates.special_tokens(),
                                                    .now = local_time()}));
  print_json(text);
  return {};
}

}  // namespace

void add_render(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("render", "a conversation as the prompt text of a chat template");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "folder with tokenizer_config.json or chat_template.jinja")->required();
  command->add_option("--messages", options->messages, "file with a JSON array of messages");
  command->add_option("--tools", options->tools, "file with a JSON array of tools");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "end after the last message");
  command->add_option("--template-kwargs", options->extra, "JSON object: further variables of the template");
  command->add_option("--chat-template", options->chat_template, "file to be used instead of the model's template");
  command->add_flag("--jsonl", options->jsonl, "one request a line on stdin, one answer a line");
  accept_json(*command);
  body_of(*command, body, {.check = [options] { return check(*options); }, .run = [options] { return run(*options); }});
}

}  // namespace lamina
