#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "api/sampling.h"
#include "apps/command.h"
#include "base/clock.h"
#include "base/strings.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  PromptOptions prompt;
  SamplingParams sampling;
  uint64_t seed = 0;
  bool json = false;
};

/// What came of one request.
struct Answer {
  std::vector<TokenId> ids;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  double first_token_s = 0;
  double total_s = 0;

  double tokens_per_second() const {
    const double decode = total_s - first_token_s;
    return ids.size() > 1 && decode > 0 ? static_cast<double>(ids.size() - 1) / decode : 0;
  }
};

/// `start_ns`: SteadyClock at the submit.
Result<Answer> collect(RequestStream& stream, int64_t start_ns, bool show) {
  Answer answer;
  while (std::optional<EngineEvent> event = stream.next()) {
    if (!event->error.empty()) return error(event->error);
    const double now = static_cast<double>(event->at_ns - start_ns) / 1e9;
    if (answer.ids.empty()) answer.first_token_s = now;
    if (event->token) answer.ids.push_back(*event->token);
    answer.text += event->text;
    answer.finish = event->finish;
    answer.total_s = now;
    if (show) std::fputs(event->text.c_str(), stdout), std::fflush(stdout);
  }
  return answer;
}

Json to_json(const std::vector<TokenId>& prompt, const Answer& answer, const Engine& engine, uint64_t seed) {
  const int64_t completion = static_cast<int64_t>(answer.ids.size());
  const int64_t prompt_tokens = static_cast<int64_t>(prompt.size());
  Json usage, timings, out;
  usage.set("prompt_tokens", prompt_tokens);
  usage.set("completion_tokens", completion);
  usage.set("total_tokens", prompt_tokens + completion);
  timings.set("load_s", engine.info().load_seconds);
  timings.set("first_token_s", answer.first_token_s);
  timings.set("total_s", answer.total_s);
  timings.set("decode_tok_s", answer.tokens_per_second());
  out.set("prompt_ids", ids_json(prompt));
  out.set("output_ids", ids_json(answer.ids));
  out.set("text", answer.text);
  out.set("finish_reason", finish_reason_name(answer.finish));
  out.set("seed", std::to_string(seed));
  out.set("usage", std::move(usage));
  out.set("timings", std::move(timings));
  return out;
}

Status check(const Options& options) {
  LAMINA_TRY(validate(options.engine));
  LAMINA_TRY(check_prompt(options.prompt));
  return validate(options.sampling, std::numeric_limits<TokenId>::max());  // the vocabulary is not known yet
}

Status run(const Options& options) {
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options.engine));
  LAMINA_ASSIGN(const std::vector<TokenId> prompt, prompt_ids(options.prompt, *engine));
  const int64_t start_ns = SteadyClock().now_ns();
  LAMINA_ASSIGN(const auto stream, engine->submit({.prompt = prompt, .sampling = options.sampling}));
  LAMINA_ASSIGN(const Answer answer, collect(*stream, start_ns, !options.json));
  if (options.json) {
    print_json(to_json(prompt, answer, *engine, stream->seed()));
    return {};
  }
  if (!engine->tokenizer().ok()) std::fputs(ids_json(answer.ids).dump().c_str(), stdout);
  std::printf("\n");
  std::fflush(stdout);
  std::fprintf(stderr, "%zu tokens, first after %.3f s, then %.1f tokens/s\n", answer.ids.size(), answer.first_token_s,
               answer.tokens_per_second());
  return {};
}

}  // namespace

void add_generate(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("generate", "continue a prompt (greedy unless a temperature is given)");
  const auto options = std::make_shared<Options>();
  options->sampling.temperature = 0.0;
  add_engine_options(*command, options->engine);
  add_prompt_options(*command, options->prompt);
  SamplingParams& sampling = options->sampling;
  command->add_option("--max-new-tokens", sampling.max_new_tokens, "longest answer in tokens");
  command->add_option("--temperature", sampling.temperature, "0: greedy");
  command->add_option("--top-p", sampling.top_p);
  command->add_option("--top-k", sampling.top_k, "-1: all");
  command->add_option("--min-p", sampling.min_p);
  command->add_option("--repetition-penalty", sampling.repetition_penalty);
  command->add_option("--stop-token-ids", sampling.stop_token_ids, "ids that end the answer besides EOS")->delimiter(',');
  CLI::Option* seed = command->add_option("--seed", options->seed, "same seed, same answer")->check(CLI::NonNegativeNumber);
  command->add_flag("--ignore-eos", sampling.ignore_eos);
  command->add_flag("--json", options->json, "one JSON object instead of streamed text");
  const auto start = [options, seed] {
    if (seed->count() > 0) options->sampling.seed = options->seed;
    return run(*options);
  };
  body_of(*command, body, {.check = [options] { return check(*options); }, .run = start, .model = &options->engine});
}

}  // namespace lamina
