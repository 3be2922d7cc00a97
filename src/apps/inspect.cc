#include "plan/inspect.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "apps/command.h"
#include "base/strings.h"
#include "engine/loaded_model.h"
#include "plan/inspect_html.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  bool json = false;
  bool weights = false;
  std::string html;            // file to write
  double memory_per_rank = 0;  // GB
};

Status write_page(const std::string& path, const std::string& page) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(page.data(), 1, page.size(), file) == page.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (!written) return error("--html ", path, ": ", std::strerror(errno));
  return {};
}

Status run(const Options& options) {
  LAMINA_ASSIGN(const Json plan, inspect_model(with_environment(options.engine), static_cast<uint64_t>(options.memory_per_rank * 1e9)));
  const Json* const refused = plan.find("refused");
  if (!options.html.empty()) LAMINA_TRY(write_page(options.html, inspect_html(plan)));
  const bool prints = options.html.empty() ? refused == nullptr || options.weights : options.json;
  if (prints && options.json) {
    print_json(plan);
  } else if (prints) {
    std::fputs((options.weights ? weights_text(plan) : inspect_text(plan)).c_str(), stdout);
  }
  return refused == nullptr ? Status() : Status(error(refused->as_string()));
}

}  // namespace

void add_inspect(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("inspect", "the plan: class, modules, parameters and their sources, boundaries, memory");
  const auto options = std::make_shared<Options>();
  add_engine_options(*command, options->engine);
  command->add_flag("--json", options->json, "one JSON object");
  command->add_flag("--weights", options->weights,
                    "each parameter's source tensors, format, group and bytes; of a checkpoint that does not fit, all that is wrong");
  command->add_option("--html", options->html, "writes a page that shows stages and ranks to this file instead of printing");
  command->add_option("--memory-per-rank", options->memory_per_rank, "GB that each rank has (0: the ranks share this machine's memory)")
      ->check(CLI::Range(0.0, 1e6));
  body_of(*command, body, {.check = [options] { return validate(options->engine); }, .run = [options] { return run(*options); }});
}

}  // namespace lamina
