#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/measure.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  PrefillShape prefill;
  DecodeShape decode;
  int rounds = 3;
  bool session = false;
};

struct Rates {
  double prefill = 0, decode = 0;  // tokens a second, best of the rounds
};

Json report(const Options& options, const Engine& engine, const Rates& rates, const Ceilings::Rates& ceilings) {
  const PrefillShape& prefill = options.prefill;
  const DecodeShape& decode = options.decode;
  const double prefill_gflops = prefill_flops(engine, prefill.tokens) / prefill.tokens * rates.prefill / 1e9;
  const double decode_gb_s = decode_bytes(engine, decode.batch, decode.context + decode.tokens / 2.0) * rates.decode / decode.batch / 1e9;
  Json out;
  out.set("model", engine.info().model);
  out.set("class", engine.info().architecture);
  out.set("dtype", torch_dtype_name(engine.info().dtype));
  out.set("isa", isa_name(engine.info().isa));
  out.set("topology", topology_json(engine.info().topology));
  out.set("threads", engine.info().threads);
  out.set("batch", decode.batch);
  out.set("load_s", engine.info().load_seconds);
  out.set("weight_bytes", engine.info().weight_bytes);
  out.set("pp_tokens", prefill.tokens);
  out.set("pp_batch", prefill.batch);
  out.set("pp_tok_s", rates.prefill);
  out.set("pp_gflops", prefill_gflops);
  out.set("pp_of_peak", prefill_gflops / ceilings.peak_gflops);
  out.set("tg_tokens", decode.tokens);
  out.set("tg_context", decode.context);
  out.set("tg_tok_s", rates.decode);
  out.set("tg_gb_s", decode_gb_s);
  out.set("tg_of_bandwidth", decode_gb_s / ceilings.read_gb_s);
  out.set("read_gb_s", ceilings.read_gb_s);
  out.set("peak_gflops", ceilings.peak_gflops);
  return out;
}

Result<Rates> measure_rates(const Options& options, Engine& engine) {
  LAMINA_ASSIGN(const double seconds, prefill_seconds(engine, options.prefill, 0));
  LAMINA_ASSIGN(const DecodeRate decode, decode_rate(engine, options.decode));
  return Rates{options.prefill.tokens * options.prefill.batch / seconds, decode.tokens_per_second};
}

/// What the process holds; anonymous amounts count from before the load.
struct Memory {
  uint64_t before = anonymous_rss();
  uint64_t loaded = 0, load_peak = 0;  // peak: mapped files included
  uint64_t decoded = 0, peak = 0;

  void after_load() { loaded = anonymous_rss() - before, load_peak = peak_rss(); }
  void after_decoding() { decoded = anonymous_rss() - before, peak = peak_rss(); }
  void put(Json& out, const MemoryPlan& plan) const {
    out.set("kv_pool_bytes", plan.kv_bytes());
    out.set("arena_bytes", plan.arena_bytes());
    out.set("load_rss_bytes", loaded);
    out.set("load_peak_rss_bytes", load_peak);
    out.set("decode_rss_bytes", decoded);
    out.set("peak_rss_bytes", peak);
  }
};

Status run(const Options& options) {
  if (options.session) {
    EngineOptions engine = options.engine;
    engine.disable_radix_cache = false;  // long contexts are computed once
    return run_session(engine);
  }
  Memory held;
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options.engine));
  held.after_load();
  LAMINA_TRY(measure_rates(options, *engine));  // first touch of KV and arena
  held.after_decoding();

  LAMINA_ASSIGN(Ceilings machine, Ceilings::create(*engine));
  Ceilings::Rates ceilings = machine.measure();
  Rates best;
  for (int round = 0; round < options.rounds; ++round) {
    LAMINA_ASSIGN(const Rates rates, measure_rates(options, *engine));
    best = {std::max(best.prefill, rates.prefill), std::max(best.decode, rates.decode)};
    const Ceilings::Rates now = machine.measure();
    ceilings = {std::max(ceilings.read_gb_s, now.read_gb_s), std::max(ceilings.peak_gflops, now.peak_gflops)};
  }
  Json out = report(options, *engine, best, ceilings);
  held.put(out, engine->info().memory);
  print_json(out);
  return {};
}

}  // namespace

void add_bench(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("bench", "prefill and decode rates beside the machine's ceilings, in one run");
  const auto options = std::make_shared<Options>();
  options->engine.disable_radix_cache = true;  // rounds repeat their prompts
  add_engine_options(*command, options->engine, "--pp-size");
  command->add_option("--pp", options->prefill.tokens, "prompt tokens (pipeline stages are --pp-size here)")->check(CLI::Range(1, 1 << 20));
  command->add_option("--tg", options->decode.tokens, "decoded tokens")->check(CLI::Range(1, 1 << 20));
  command->add_option("--pp-batch", options->prefill.batch, "prompts computed at the same time")->check(CLI::Range(1, 4096));
  command->add_option("--batch", options->decode.batch, "requests decoded at the same time")->check(CLI::Range(1, 4096));
  command->add_option("--rounds", options->rounds, "alternations; rates and ceilings are the best of them")->check(CLI::Range(1, 100));
  command->add_option("--context", options->decode.context, "prompt tokens before the decoded ones")->check(CLI::Range(1, 1 << 20));
  command->add_flag("--session", options->session, "measure what lines of JSON on stdin ask for, with the model loaded once");
  accept_json(*command);
  body_of(
      *command, body,
      {.check = [options] { return validate(options->engine); }, .run = [options] { return run(*options); }, .model = &options->engine});
}

}  // namespace lamina
