#include <CLI/CLI.hpp>
#include <memory>

#include "apps/command.h"

namespace lamina {
namespace {

Status run(const PromptCommand& options) {
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options.engine));
  LAMINA_ASSIGN(std::vector<TokenId> prompt, prompt_ids(options.prompt, *engine));
  LAMINA_ASSIGN(const auto stream, engine->submit({.prompt = std::move(prompt), .sampling = {}, .pool = true}));
  Json embedding = Json::array();
  while (std::optional<EngineEvent> event = stream->next()) {
    if (!event->error.empty()) return Error{event->error};
    for (const float value : event->embedding) embedding.push(Json(static_cast<double>(value)));
  }
  Json out;
  out.set("embedding", std::move(embedding));
  print_json(out);
  return {};
}

}  // namespace

void add_embed(CLI::App& app, CommandBody& body) {
  add_prompt_command(*app.add_subcommand("embed", "embedding of a prompt: last token, L2-normalised"), body, run);
}

}  // namespace lamina
