#pragma once
// One subcommand a file: each adds itself to the parser and leaves what is to be run.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "plan/inspect.h"

namespace CLI {
class App;
}

namespace lamina {

/// What the chosen subcommand does once the command line is parsed.
struct CommandBody {
  std::function<Status()> check;  // what the command line alone gets wrong: a usage error
  std::function<Status()> run;
  const EngineOptions* model = nullptr;  // of a command that runs one: under mpirun the processes but rank 0 only compute for it
};

/// Makes `chosen` the body when `command` is given.
void body_of(CLI::App& command, CommandBody& body, CommandBody chosen);

void add_generate(CLI::App& app, CommandBody& body);
void add_logits(CLI::App& app, CommandBody& body);
void add_embed(CLI::App& app, CommandBody& body);
void add_tokenize(CLI::App& app, CommandBody& body);
void add_render(CLI::App& app, CommandBody& body);
void add_inspect(CLI::App& app, CommandBody& body);
void add_bench(CLI::App& app, CommandBody& body);
void add_serve(CLI::App& app, CommandBody& body);
void add_chat(CLI::App& app, CommandBody& body);
void add_verify(CLI::App& app, CommandBody& body);
void add_quantize(CLI::App& app, CommandBody& body);

/// MODEL and the options that every command which runs a model takes. `options` outlives the parser. `pp_names`: how the command calls
/// the number of pipeline stages (in `bench` --pp is something else).
void add_engine_options(CLI::App& command, EngineOptions& options, const char* pp_names = "--pp-size,--pp");

/// --prompt or --prompt-ids, exactly one of them.
struct PromptOptions {
  std::optional<std::string> text;
  std::optional<std::string> ids;
};
void add_prompt_options(CLI::App& command, PromptOptions& options);
/// Whether exactly one is given, and ids are numbers.
Status check_prompt(const PromptOptions& options);
/// Token ids of the prompt: encoded with special tokens, or as given.
Result<std::vector<TokenId>> prompt_ids(const PromptOptions& options, const Engine& engine);
/// "1,2,3" -> ids; the error names `flag` and the piece that is no integer.
Result<std::vector<TokenId>> parse_ids(std::string_view text, std::string_view flag);

/// What a command that runs a model over one prompt and prints JSON is told.
struct PromptCommand {
  EngineOptions engine;
  PromptOptions prompt;
};
/// Gives `command` these options and makes `run` its body.
void add_prompt_command(CLI::App& command, CommandBody& body, Status (*run)(const PromptCommand&));

/// `options` with LAMINA_ISA and LAMINA_DISABLED_ARCHS.
EngineOptions with_environment(EngineOptions options);
/// "loading [####    ] 50 %" on stderr; nothing when that is no terminal. `label` outlives it.
LoadProgress progress_bar(const char* label);
/// Starts an engine with a progress bar (when stderr is a terminal) and prints the start line on stderr.
Result<std::unique_ptr<Engine>> start_engine(const EngineOptions& options);

/// Adds --json to a command whose output is always JSON.
void accept_json(CLI::App& command);
/// One JSON object on stdout.
void print_json(const Json& value);
Json ids_json(const std::vector<TokenId>& ids);
/// The same ids for the same arguments.
std::vector<TokenId> random_prompt(int length, int64_t vocab, uint64_t stream);

}  // namespace lamina
