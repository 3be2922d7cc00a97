#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "apps/command.h"
#include "base/strings.h"

namespace lamina {
namespace {

struct Options {
  std::string model;
  std::optional<std::string> text, ids;
  bool no_special = false, skip_special = false, jsonl = false;
};

Result<Json> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special) {
  LAMINA_ASSIGN(const std::vector<TokenId> ids, tokenizer.encode(text, {.add_special_tokens = add_special}));
  Json out;
  out.set("ids", ids_json(ids));
  return out;
}

Json decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  Json out;
  out.set("text", tokenizer.decode(ids, skip_special));
  return out;
}

bool flag(const Json& object, std::string_view key, bool otherwise) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_bool() ? value->as_bool() : otherwise;
}

/// {"text":"","add_special":true} -> ids; {"ids":[],"skip_special":false} -> text.
Result<Json> answer_line(const Tokenizer& tokenizer, const std::string& line) {
  LAMINA_ASSIGN(const Json object, parse_json(line, "line"));
  if (const Json* text = object.find("text"); text != nullptr && text->is_string()) {
    return encode(tokenizer, text->as_string(), flag(object, "add_special", true));
  }
  const Json* list = object.find("ids");
  if (list == nullptr || !list->is_array()) return error("a line needs \"text\" (a string) or \"ids\" (an array)");
  std::vector<TokenId> ids;
  for (const Json& id : list->as_array()) {
    if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() > INT32_MAX)
      return error("\"ids\" must hold token ids, found ", id.dump());
    ids.push_back(static_cast<TokenId>(id.as_integer()));
  }
  return decode(tokenizer, ids, flag(object, "skip_special", false));
}

void answer_lines(const Tokenizer& tokenizer) {
  for (std::string line; std::getline(std::cin, line);) {
    Result<Json> answer = answer_line(tokenizer, line);
    if (answer.ok()) {
      print_json(*answer);
    } else {
      Json fault;
      fault.set("error", answer.error().message);
      print_json(fault);
    }
  }
}

Status check(const Options& options) {
  if (!options.text && !options.ids && !options.jsonl) return error("--text, --ids with --decode, or --jsonl is needed");
  if (options.ids) LAMINA_TRY(parse_ids(*options.ids, "--ids"));
  return {};
}

Status run(const Options& options) {
  LAMINA_ASSIGN(const Tokenizer tokenizer, Tokenizer::load(options.model));
  if (options.jsonl) {
    answer_lines(tokenizer);
    return {};
  }
  if (options.ids) {
    LAMINA_ASSIGN(const std::vector<TokenId> ids, parse_ids(*options.ids, "--ids"));
    print_json(decode(tokenizer, ids, options.skip_special));
    return {};
  }
  LAMINA_ASSIGN(const Json ids, encode(tokenizer, options.text.value_or(""), !options.no_special));
  print_json(ids);
  return {};
}

}  // namespace

void add_tokenize(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("tokenize", "text to token ids and back; needs only tokenizer.json");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "folder with tokenizer.json")->required();
  CLI::Option* text = command->add_option("--text", options->text, "text to encode");
  command->add_flag("--no-special", options->no_special, "without the tokens the post-processor adds");
  CLI::Option* ids = command->add_option("--ids", options->ids, "ids to decode: 1,2,3");
  CLI::Option* decode_flag = command->add_flag("--decode");
  command->add_flag("--skip-special", options->skip_special, "leave special tokens out of the text");
  command->add_flag("--jsonl", options->jsonl, "one request a line on stdin, one answer a line");
  accept_json(*command);
  decode_flag->needs(ids);
  ids->needs(decode_flag);
  text->excludes(ids);
  body_of(*command, body, {.check = [options] { return check(*options); }, .run = [options] { return run(*options); }});
}

}  // namespace lamina
