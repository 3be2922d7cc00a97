#include <CLI/CLI.hpp>
#include <memory>

#include "apps/command.h"

namespace lamina {
namespace {

Status run(const PromptCommand& options) {
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options.engine));
  LAMINA_ASSIGN(std::vector<TokenId> prompt, prompt_ids(options.prompt, *engine));
  EngineRequest request{.prompt = std::move(prompt), .sampling = {}, .all_logits = true};
  request.sampling.max_new_tokens = 0;
  LAMINA_ASSIGN(const auto stream, engine->submit(std::move(request)));
  std::vector<float> logits;
  while (std::optional<EngineEvent> event = stream->next()) {
    if (!event->error.empty()) return Error{event->error};
    logits.insert(logits.end(), event->prompt_logits.begin(), event->prompt_logits.end());
  }
  const size_t vocab = static_cast<size_t>(engine->config().vocab_size);
  Json rows = Json::array();
  for (size_t begin = 0; begin < logits.size(); begin += vocab) {
    Json row = Json::array();
    for (size_t v = 0; v < vocab; ++v) row.push(Json(static_cast<double>(logits[begin + v])));
    rows.push(std::move(row));
  }
  Json out;
  out.set("logits", std::move(rows));
  print_json(out);
  return {};
}

}  // namespace

void add_logits(CLI::App& app, CommandBody& body) {
  add_prompt_command(*app.add_subcommand("logits", "logits of every position of a prompt"), body, run);
}

}  // namespace lamina
