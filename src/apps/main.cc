#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/command.h"
#include "base/log.h"

namespace {

/// Fixed names that are not built yet: a usage error that says so is better than "unknown".
constexpr const char* kPlanned[] = {"serve", "chat", "render", "verify"};

constexpr int kFailed = 1;
constexpr int kUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"lamina: serves Hugging Face language-model checkpoints on CPUs"};
  app.require_subcommand(1);
  lamina::CommandBody body;
  lamina::add_generate(app, body);
  lamina::add_logits(app, body);
  lamina::add_embed(app, body);
  lamina::add_tokenize(app, body);
  lamina::add_inspect(app, body);
  lamina::add_bench(app, body);
  for (const char* name : kPlanned) {
    if (argc > 1 && std::string_view(argv[1]) == name) {
      std::fprintf(stderr, "error: '%s' is not built yet\n", name);
      return kUsage;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    if (fault.get_exit_code() == 0) return app.exit(fault);  // --help
    std::fprintf(stderr, "error: %s\n", fault.what());
    return kUsage;
  }
  const lamina::Status status = body();
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.error().message.c_str());
  return kFailed;
}
