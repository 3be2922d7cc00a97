#include "plan/inspect.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/command.h"
#include "base/strings.h"
#include "engine/loaded_model.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  bool json = false;
};

Status run(const Options& options) {
  LAMINA_ASSIGN(const Json plan, inspect_model(with_environment(options.engine)));
  if (options.json) {
    print_json(plan);
  } else {
    std::fputs(inspect_text(plan).c_str(), stdout);
  }
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("inspect", "the plan: class, modules, parameters and their sources, boundaries, memory");
  const auto options = std::make_shared<Options>();
  add_engine_options(*command, options->engine);
  command->add_flag("--json", options->json, "one JSON object");
  body_of(*command, body, {.check = [options] { return validate(options->engine); }, .run = [options] { return run(*options); }});
}

}  // namespace lamina
