#include "engine/verify.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/command.h"
#include "base/strings.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  std::vector<std::string> texts, ids;
  int new_tokens = 16;
};

/// Random prompts that end before, on and behind the ends of pages and of a step, as far as the context allows.
Prompts default_prompts(const Engine& engine, const Options& options) {
  const int64_t page = options.engine.page_size, chunk = options.engine.chunked_prefill_size;
  const int64_t most = std::min(engine.info().context_length, engine.info().memory.kv_tokens()) - options.new_tokens;
  Prompts prompts;
  for (const int64_t length : {int64_t{1}, page + 1, 3 * page - 1, chunk + page / 2, 2 * chunk + 3}) {
    prompts.push_back(random_prompt(static_cast<int>(std::clamp(length, int64_t{1}, std::max(int64_t{1}, most))),
                                    engine.config().vocab_size, prompts.size()));
  }
  return prompts;
}

Result<Prompts> prompts_of(const Engine& engine, const Options& options) {
  if (options.texts.empty() && options.ids.empty()) return default_prompts(engine, options);
  Prompts prompts;
  for (const std::string& ids : options.ids) {
    LAMINA_ASSIGN(std::vector<TokenId> prompt, parse_ids(ids, "--prompt-ids"));
    prompts.push_back(std::move(prompt));
  }
  for (const std::string& text : options.texts) {
    LAMINA_ASSIGN(std::vector<TokenId> prompt, prompt_ids({.text = text, .ids = {}}, engine));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Json difference_json(const std::optional<FirstDifference>& difference) {
  if (!difference) return {};
  Json out;
  out.set("layer", difference->layer);
  out.set("boundary", difference->boundary);
  out.set("max_abs_diff", difference->max_abs_diff);
  return out;
}

Json to_json(const VerifyReport& report, const Topology& topology) {
  Json out;
  out.set("ok", report.ok());
  out.set("max_abs_diff", report.max_abs_diff);
  out.set("tolerance", report.tolerance);
  out.set("largest_logit", report.largest_logit);
  out.set("argmax_equal", report.argmax_equal);
  out.set("prompts", report.prompts);
  out.set("positions", report.positions);
  out.set("new_tokens", report.new_tokens);
  out.set("new_tokens_equal", report.new_tokens_equal);
  out.set("max_logprob_diff", report.max_logprob_diff);
  out.set("topology", topology_json(topology));
  out.set("first_difference", difference_json(report.first_difference));
  return out;
}

Status check(const Options& options) {
  LAMINA_TRY(validate(options.engine));
  for (const std::string& ids : options.ids) LAMINA_TRY(parse_ids(ids, "--prompt-ids"));
  if (!under_mpirun()) return {};
  return error("verify compares ranks that are threads with a single one: start it without mpirun");
}

Status run(const Options& options) {
  VerifyRequest request;
  request.candidate = with_environment(options.engine);
  request.reference = request.candidate;
  request.reference.topology = {};
  request.new_tokens = options.new_tokens;
  request.prompts = [&](const Engine& engine) { return prompts_of(engine, options); };
  LAMINA_ASSIGN(const VerifyReport report, verify(request));
  print_json(to_json(report, options.engine.topology));
  if (report.ok()) return {};
  const FirstDifference& first = *report.first_difference;
  return error("the runs differ by ", report.max_abs_diff, " where ", report.tolerance, " is allowed; first at layer ", first.layer, ", ",
               first.boundary);
}

}  // namespace

void add_verify(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("verify", "compare a topology with a single rank, position by position");
  const auto options = std::make_shared<Options>();
  options->engine.disable_radix_cache = true;  // every prompt is computed
  options->engine.chunked_prefill_size = 64;   // prompts of several steps stay short
  add_engine_options(*command, options->engine);
  command->add_option("--prompt", options->texts, "text, encoded with special tokens; may be repeated (default: random prompts)");
  command->add_option("--prompt-ids", options->ids, "token ids: 1,2,3; may be repeated");
  command->add_option("--max-new-tokens", options->new_tokens, "tokens continued greedily")->check(CLI::Range(0, 4096));
  accept_json(*command);
  body_of(*command, body, {.check = [options] { return check(*options); }, .run = [options] { return run(*options); }});
}

}  // namespace lamina
