#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <thread>

#include "api/sampling.h"
#include "apps/command.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  SamplingParams sampling;
  std::string system;
};

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

/// One conversation with a model.
class Conversation {
 public:
  Conversation(Engine& engine, const Options& options) : engine_(engine), options_(options) { reset(); }

  void reset() {
    messages_ = Json::array();
    if (!options_.system.empty()) add("system", options_.system);
  }

  /// Streams the answer to stdout; Ctrl-C ends it and keeps what was said. A refused prompt leaves the conversation as it was.
  Status answer(const std::string& text) {
    Json before = messages_;
    add("user", text);
    Result<std::vector<TokenId>> prompt = encode();
    if (!prompt.ok()) return restore(std::move(before), prompt.error());
    Result<std::unique_ptr<RequestStream>> stream = engine_.submit({.prompt = std::move(*prompt), .sampling = options_.sampling});
    if (!stream.ok()) return restore(std::move(before), stream.error());
    return follow(**stream);
  }

 private:
  void add(const char* role, std::string text) {
    Json message;
    message.set("role", role);
    message.set("content", std::move(text));
    messages_.push(std::move(message));
  }

  Status restore(Json before, Error fault) {
    messages_ = std::move(before);
    return fault;
  }

  Result<std::vector<TokenId>> encode() const {
    LAMINA_ASSIGN(const Tokenizer* tokenizer, engine_.tokenizer());
    LAMINA_ASSIGN(const ChatTemplate* chat_template, engine_.chat_templates().choose(false));
    const ChatTemplate::Inputs inputs{
        .messages = messages_, .special_tokens = engine_.chat_templates().special_tokens(), .now = local_time()};
    LAMINA_ASSIGN(const std::vector<TemplateSpan> spans, chat_template->render(inputs));
    return encode_spans(*tokenizer, spans);
  }

  Status follow(RequestStream& stream) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kPoll = std::chrono::milliseconds(2);
    const Clock::time_point start = Clock::now();
    std::string said;
    int tokens = 0;
    interrupted = 0;
    for (bool done = false; !done;) {
      if (interrupted != 0) engine_.cancel(stream.id());
      std::optional<EngineEvent> event = stream.try_next();
      if (!event) {
        std::this_thread::sleep_for(kPoll);
        continue;
      }
      if (!event->error.empty()) return Error{event->error};
      tokens += event->token ? 1 : 0;
      said += event->text;
      std::fputs(event->text.c_str(), stdout);
      std::fflush(stdout);
      done = event->finish != FinishReason::kNone;
    }
    add("assistant", said);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::fputs("\n", stdout);
    std::fflush(stdout);
    std::fprintf(stderr, "[%d tokens, %.1f tokens/s%s]\n", tokens, tokens / seconds, interrupted != 0 ? ", stopped" : "");
    return {};
  }

  Engine& engine_;
  const Options& options_;
  Json messages_;
};

Status run(const Options& options) {
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options.engine));
  LAMINA_TRY(engine->chat_templates().choose(false));
  std::signal(SIGINT, interrupt);
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::fputs("/reset begins anew, /quit or Ctrl-D ends, Ctrl-C stops an answer\n", stderr);
  Conversation conversation(*engine, options);
  for (std::string line;;) {
    if (terminal) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line) || line == "/quit") return {};
    if (line.empty()) continue;
    if (line == "/reset") {
      conversation.reset();
      continue;
    }
    if (const Status status = conversation.answer(line); !status.ok()) std::fprintf(stderr, "error: %s\n", status.error().message.c_str());
  }
}

}  // namespace

void add_chat(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("chat", "a conversation on the terminal, by the checkpoint's chat template");
  const auto options = std::make_shared<Options>();
  options->sampling.temperature = 0.0;
  options->sampling.max_new_tokens = 1024;
  add_engine_options(*command, options->engine);
  command->add_option("--system", options->system, "system message");
  command->add_option("--max-new-tokens", options->sampling.max_new_tokens, "longest answer in tokens");
  command->add_option("--temperature", options->sampling.temperature, "0: greedy");
  command->add_option("--top-p", options->sampling.top_p);
  command->add_option("--top-k", options->sampling.top_k, "-1: all");
  const auto check = [options]() -> Status {
    LAMINA_TRY(validate(options->engine));
    return validate(options->sampling, std::numeric_limits<TokenId>::max());
  };
  body_of(*command, body, {.check = check, .run = [options] { return run(*options); }, .model = &options->engine});
}

}  // namespace lamina
