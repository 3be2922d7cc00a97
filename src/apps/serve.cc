#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "apps/command.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/server.h"

namespace lamina {
namespace {

/// mpirun sends SIGTERM when a rank has died; that it has comes another way, which may take longer.
constexpr auto kFaultDelay = std::chrono::milliseconds(200);

struct Options {
  EngineOptions engine;
  server::ServerOptions server;
};

Status check(const Options& options) {
  LAMINA_TRY(validate(options.engine));
  return server::validate(options.server);
}

/// The port is taken before the model is loaded: a taken one is told at once, and /health says "starting" meanwhile.
Status run(const Options& options) {
  std::unique_ptr<Engine> engine;  // outlives the server
  LAMINA_ASSIGN(const std::unique_ptr<server::Server> server, server::Server::listen(options.server));
  const std::string address = cat("http://", options.server.host, ":", server->port());
  log_info(cat("listening on ", address));
  std::optional<Error> refusal;
  std::atomic<bool> loaded{false};
  std::thread loader([&] {
    Result<std::unique_ptr<Engine>> started = start_engine(options.engine);
    if (started.ok()) {
      engine = std::move(*started);
      server->serve(*engine);
      log_info(cat("ready on ", address));
    } else {
      refusal = started.error();
    }
    loaded = true;
    if (refusal) server->drain();
  });
  server->run(true);
  // Told to stop while loading, which cannot be interrupted and has nothing to lose. Under mpirun it may be told because a rank has died.
  if (!loaded) std::_Exit(under_mpirun() ? 1 : 0);
  loader.join();
  if (refusal) return *refusal;
  if (under_mpirun()) std::this_thread::sleep_for(kFaultDelay);
  if (const std::string fault = engine->fault(); !fault.empty()) return Error{fault};
  return {};
}

}  // namespace

void add_serve(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("serve", "answer OpenAI's API over HTTP");
  const auto options = std::make_shared<Options>();
  add_engine_options(*command, options->engine);
  server::ServerOptions& server = options->server;
  command->add_option("--host", server.host, "address to listen on");
  command->add_option("--port", server.port, "0: any free one, which is printed");
  command->add_option("--api-key", server.api_key, "what clients must send as Bearer, except to /health");
  command->add_option("--served-model-name", server.served_model_name, "what requests call the model (the folder's name)");
  command->add_option("--sampling-defaults", server.sampling_defaults, "model (generation_config.json) | openai");
  command->add_option("--drain-timeout", server.drain_timeout, "seconds that running requests get after SIGTERM");
  command->add_option("--watchdog-timeout", server.watchdog_timeout, "seconds without a step after which /health fails");
  body_of(*command, body,
          {.check = [options] { return check(*options); }, .run = [options] { return run(*options); }, .model = &options->engine});
}

}  // namespace lamina
