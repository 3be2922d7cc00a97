#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/command.h"
#include "base/clock.h"
#include "kernels/ceiling.h"

namespace lamina {
namespace {

struct Options {
  EngineOptions engine;
  int prefill = 512;
  int decode = 64;
  int prefill_batch = 1;
  int batch = 1;
  int rounds = 3;
};

constexpr int kDecodePrompt = 32;  // context at which decoding is measured

constexpr size_t kReadBytes = size_t{512} << 20;  // far beyond any cache

/// Both ceilings of the machine; the best of what is measured between the runs.
struct Ceilings {
  double read_gb_s = 0;
  double peak_gflops = 0;

  void measure(const kernels::Kernels& kernels, ThreadTeam& team, const Buffer& memory) {
    read_gb_s = std::max(read_gb_s, kernels::measure_read_bandwidth(kernels, team, memory) / 1e9);
    peak_gflops = std::max(peak_gflops, kernels::measure_dot_peak(kernels, team) / 1e9);
  }
};

/// Times of the first and the last token over all requests of a batch, in seconds from submit.
struct Times {
  double first = 0, last = 0;
};

Result<Times> run_batch(Engine& engine, int batch, int prompt, int new_tokens) {
  const int64_t start_ns = SteadyClock().now_ns();
  std::vector<std::unique_ptr<RequestStream>> streams;
  for (int b = 0; b < batch; ++b) {
    EngineRequest request{.prompt = random_prompt(prompt, engine.config().vocab_size, static_cast<uint64_t>(b)), .sampling = {}};
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_new_tokens = new_tokens;
    LAMINA_ASSIGN(auto stream, engine.submit(std::move(request)));
    streams.push_back(std::move(stream));
  }
  Times times;
  for (const auto& stream : streams) {
    for (bool first = true; std::optional<EngineEvent> event = stream->next(); first = false) {
      if (!event->error.empty()) return Error{event->error};
      const double now = static_cast<double>(event->at_ns - start_ns) / 1e9;
      times.last = std::max(times.last, now);
      if (first) times.first = std::max(times.first, now);
    }
  }
  return times;
}

/// Floating-point operations of `tokens` prompt tokens: two a weight that multiplies (the head only for the last row), and attention.
double prefill_flops(const Engine& engine, int64_t tokens) {
  const ModelConfig& config = engine.config();
  const double t = static_cast<double>(tokens);
  const double h = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double q = static_cast<double>(config.num_attention_heads * config.head_dim);
  const double kv = static_cast<double>(config.num_key_value_heads * config.head_dim);
  const double layer = 2 * t * (h * (q + 2 * kv) + q * h + 3 * h * inner) + 4 * q * t * (t + 1) / 2;
  return layer * static_cast<double>(config.num_hidden_layers) + 2 * h * static_cast<double>(config.vocab_size);
}

/// Bytes a decode step reads at least: every weight once (an untied embedding only by row) and the keys and values.
double decode_bytes(const Engine& engine, int batch, int64_t context) {
  const ModelConfig& config = engine.config();
  double bytes = static_cast<double>(engine.info().weight_bytes);
  if (!config.tie_word_embeddings) {
    bytes -= static_cast<double>(config.vocab_size * config.hidden_size) * dtype_bytes(engine.info().dtype);
  }
  return bytes + static_cast<double>(engine.info().kv_bytes_per_token) * static_cast<double>(context) * batch;
}

struct Rates {
  double prefill = 0, decode = 0;  // tokens a second, best of the rounds
};

Json report(const Options& options, const Engine& engine, const Rates& rates, const Ceilings& ceilings) {
  const double prefill_gflops = prefill_flops(engine, options.prefill) / options.prefill * rates.prefill / 1e9;
  const double decode_gb_s = decode_bytes(engine, options.batch, kDecodePrompt + options.decode / 2) * rates.decode / options.batch / 1e9;
  Json out;
  out.set("model", engine.info().model);
  out.set("class", engine.info().architecture);
  out.set("dtype", torch_dtype_name(engine.info().dtype));
  out.set("isa", isa_name(engine.info().isa));
  out.set("topology", topology_json(engine.info().topology));
  out.set("threads", engine.info().threads);
  out.set("batch", options.batch);
  out.set("load_s", engine.info().load_seconds);
  out.set("weight_bytes", engine.info().weight_bytes);
  out.set("pp_tokens", options.prefill);
  out.set("pp_batch", options.prefill_batch);
  out.set("pp_tok_s", rates.prefill);
  out.set("pp_gflops", prefill_gflops);
  out.set("pp_of_peak", prefill_gflops / ceilings.peak_gflops);
  out.set("tg_tokens", options.decode);
  out.set("tg_tok_s", rates.decode);
  out.set("tg_gb_s", decode_gb_s);
  out.set("tg_of_bandwidth", decode_gb_s / ceilings.read_gb_s);
  out.set("read_gb_s", ceilings.read_gb_s);
  out.set("peak_gflops", ceilings.peak_gflops);
  return out;
}

Result<Rates> measure_rates(const Options& options, Engine& engine) {
  LAMINA_ASSIGN(const Times prefill, run_batch(engine, options.prefill_batch, options.prefill, 1));
  LAMINA_ASSIGN(const Times decode, run_batch(engine, options.batch, kDecodePrompt, options.decode + 1));
  return Rates{options.prefill * options.prefill_batch / prefill.last, options.decode * options.batch / (decode.last - decode.first)};
}

Status run(const Options& options) {
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options.engine));
  LAMINA_TRY(measure_rates(options, *engine));  // first touch of KV and arena
  const int64_t peak = static_cast<int64_t>(peak_rss());

  const kernels::Kernels& kernels = kernels::table(engine->info().isa);
  ThreadTeam team(engine->info().threads, usable_cpus());
  LAMINA_ASSIGN(const Buffer memory, kernels::make_read_memory(team, kReadBytes));
  Ceilings ceilings;
  Rates best;
  for (int round = 0; round < options.rounds; ++round) {
    ceilings.measure(kernels, team, memory);
    LAMINA_ASSIGN(const Rates rates, measure_rates(options, *engine));
    best = {std::max(best.prefill, rates.prefill), std::max(best.decode, rates.decode)};
  }
  ceilings.measure(kernels, team, memory);
  Json out = report(options, *engine, best, ceilings);
  out.set("peak_rss_bytes", peak);
  print_json(out);
  return {};
}

}  // namespace

void add_bench(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("bench", "prefill and decode rates beside the machine's ceilings, in one run");
  const auto options = std::make_shared<Options>();
  options->engine.disable_radix_cache = true;  // rounds repeat their prompts
  add_engine_options(*command, options->engine, "--pp-size");
  command->add_option("--pp", options->prefill, "prompt tokens (pipeline stages are --pp-size here)")->check(CLI::Range(1, 1 << 20));
  command->add_option("--tg", options->decode, "decoded tokens")->check(CLI::Range(1, 1 << 20));
  command->add_option("--pp-batch", options->prefill_batch, "prompts computed at the same time")->check(CLI::Range(1, 4096));
  command->add_option("--batch", options->batch, "requests decoded at the same time")->check(CLI::Range(1, 4096));
  command->add_option("--rounds", options->rounds, "alternations; rates and ceilings are the best of them")->check(CLI::Range(1, 100));
  accept_json(*command);
  body_of(
      *command, body,
      {.check = [options] { return validate(options->engine); }, .run = [options] { return run(*options); }, .model = &options->engine});
}

}  // namespace lamina
