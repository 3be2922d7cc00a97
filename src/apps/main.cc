#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "apps/command.h"
#include "base/log.h"
#include "base/strings.h"

namespace {

/// Fixed names that are not built yet: a usage error that says so is better than "unknown".
constexpr const char* kPlanned[] = {"verify"};

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// One line on stderr, whatever the message holds.
int fail(int exit_code, std::string_view message) {
  lamina::log_error(message);
  return exit_code;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"lamina: serves Hugging Face language-model checkpoints on CPUs"};
  app.require_subcommand(0, 1);
  lamina::CommandBody body;
  lamina::add_generate(app, body);
  lamina::add_logits(app, body);
  lamina::add_embed(app, body);
  lamina::add_tokenize(app, body);
  lamina::add_render(app, body);
  lamina::add_inspect(app, body);
  lamina::add_bench(app, body);
  lamina::add_serve(app, body);
  lamina::add_chat(app, body);
  const std::vector<std::string> commands = command_names(app);
  const std::string_view first = argc > 1 ? argv[1] : "";
  for (const char* name : kPlanned) {
    if (first == name) return fail(kUsage, lamina::cat("'", name, "' is not built yet"));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    if (fault.get_exit_code() == 0) return app.exit(fault);  // --help
    const bool is_word = !first.empty() && first.front() != '-';
    if (is_word && std::ranges::find(commands, first) == commands.end()) {
      return fail(kUsage, lamina::cat("'", first, "' is no command; commands: ", lamina::join(commands, ", ")));
    }
    return fail(kUsage, fault.what());
  }
  if (!body.run) return fail(kUsage, lamina::cat("a command is needed: ", lamina::join(commands, ", ")));
  if (const lamina::Status status = body.check(); !status.ok()) return fail(kUsage, status.error().message);
  if (const lamina::Status status = body.run(); !status.ok()) return fail(kFailed, status.error().message);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail(kFailed, "stdout: the answer could not be written");
  return 0;
}
