#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "apps/command.h"
#include "base/log.h"
#include "base/strings.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// One line on stderr, whatever the message holds.
int fail(int exit_code, std::string_view message) {
  lamina::log_error(message);
  return exit_code;
}

/// Of a worker that leaves with an error: mpirun then ends the others, and rank 0 has to tell its clients and the user before.
void let_rank_0_speak() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

/// What the command line gets wrong. Under mpirun rank 0 says it.
int refuse(std::string_view message) {
  if (!lamina::is_worker_process()) return fail(kUsage, message);
  let_rank_0_speak();
  return kUsage;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

/// Buffers of a megabyte and more go back to the system when they are freed: of those of a load malloc would keep tens of megabytes.
void return_large_buffers() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

int run_command(const lamina::CommandBody& body) {
  // mpirun sends it when a rank has died, which is told by an error; serve follows it.
  if (lamina::under_mpirun()) std::signal(SIGTERM, SIG_IGN);
  if (const lamina::Status status = body.run(); !status.ok()) return fail(kFailed, status.error().message);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail(kFailed, "stdout: the answer could not be written");
  return 0;
}

/// A rank other than 0. Signals are for rank 0: it drains, and the others end when it does.
int run_worker(const lamina::EngineOptions& options) {
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  const lamina::Status status = lamina::Engine::run_worker(lamina::with_environment(options));
  if (!status.ok() && !status.error().message.empty()) fail(kFailed, status.error().message);
  return status.ok() ? 0 : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  return_large_buffers();
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
  lamina::add_verify(app, body);
  lamina::add_quantize(app, body);
  const std::vector<std::string> commands = command_names(app);
  const std::string_view first = argc > 1 ? argv[1] : "";
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    if (fault.get_exit_code() == 0) return app.exit(fault);  // --help
    const bool is_word = !first.empty() && first.front() != '-';
    if (is_word && std::ranges::find(commands, first) == commands.end()) {
      return refuse(lamina::cat("'", first, "' is no command; commands: ", lamina::join(commands, ", ")));
    }
    return refuse(fault.what());
  }
  if (!body.run) return refuse(lamina::cat("a command is needed: ", lamina::join(commands, ", ")));
  if (const lamina::Status status = body.check(); !status.ok()) return refuse(status.error().message);
  const bool is_worker = lamina::is_worker_process();
  if (is_worker && body.model == nullptr) return 0;  // nothing to help with
  const int code = is_worker ? run_worker(*body.model) : run_command(body);
  if (code == 0) return 0;
  if (is_worker) let_rank_0_speak();
  if (lamina::under_mpirun()) std::_Exit(code);  // MPI is not finalized when a rank may be gone
  return code;
}
