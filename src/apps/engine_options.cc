#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "apps/command.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"

namespace lamina {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void draw_progress(const char* label, size_t done, size_t total) {
  constexpr int kWidth = 40;
  const double part = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const int full = static_cast<int>(part * kWidth);
  std::fprintf(stderr, "\r%s [%-*s] %3d %%", label, kWidth, std::string(static_cast<size_t>(full), '#').c_str(),
               static_cast<int>(part * 100));
  if (done >= total) std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

/// "5,6,5" -> numbers. Throws what the parser catches.
std::vector<int> layer_counts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& piece : split(text, ',')) {
    const char* end = piece.data() + piece.size();
    int count = 0;
    const auto [read, fault] = std::from_chars(piece.data(), end, count);
    if (fault != std::errc() || read != end)
      throw CLI::ValidationError("--pp-layer-partition", cat("'", piece, "' is no number of layers"));
    counts.push_back(count);
  }
  return counts;
}

void add_topology_options(CLI::App& command, EngineOptions& options, const char* pp_names) {
  Topology& topology = options.topology;
  command.add_option("--tp-size,--tp", topology.tp_size, "ranks that share each layer");
  command.add_option(pp_names, topology.pp_size, "pipeline stages");
  command.add_option("--dp-attention", topology.dp_attention, "groups of tp ranks that hold requests of their own; it divides --tp-size");
  command.add_flag("--enable-dp-lm-head", topology.dp_lm_head, "each --dp-attention group computes the logits of its own requests");
  command.add_option_function<std::string>(
      "--pp-layer-partition", [&topology](const std::string& text) { topology.pp_layer_partition = layer_counts(text); },
      "layers of each stage: 5,6,5 (default: even)");
  command.add_option("--boundary-plan", options.boundary_plan,
                     "fused | reference (sum, addition, norm and rounding one after the other); same bits");
  command.add_option("--boundary-rows", options.boundary_rows, "auto | replicated | scattered: the residual between ranks; same bits");
  command.add_option("--dp-padding", options.dp_padding, "auto | padded | ragged: rows of --dp-attention groups; same bits");
  command.add_option("--dist-timeout", options.dist_timeout, "seconds after which a rank that waits for another one gives up");
  command.add_option("--max-micro-batches", options.max_micro_batches, "steps in flight at once (0: one a pipeline stage)");
  command.add_flag("--enable-two-batch-overlap", options.enable_two_batch_overlap, "not built: refused");
}

}  // namespace

void body_of(CLI::App& command, CommandBody& body, CommandBody chosen) {
  command.parse_complete_callback([&body, chosen = std::move(chosen)] { body = chosen; });
}

void add_engine_options(CLI::App& command, EngineOptions& options, const char* pp_names) {
  add_topology_options(command, options, pp_names);
  command.add_option("MODEL", options.model, "checkpoint folder")->required();
  command.add_option("--json-model-override-args", options.json_model_override_args, "JSON object merged over config.json");
  command.add_option("--load-format", options.load_format, "auto | dummy (seeded values instead of weights)");
  command.add_option("--dtype", options.dtype, "auto | bfloat16 | float16 | half | float32");
  command.add_option("--quantization", options.quantization, "int8 | int4 | fp8: a plain checkpoint is quantised while it is loaded");
  command.add_option("--quantization-group-size", options.quantization_group_size, "int4: 32 (default) | 128 inputs share a scale");
  command.add_option("--quantization-ignore", options.quantization_ignore,
                     "modules left plain, separated by commas; re: and a regular expression");
  command.add_option("--quantization-param-path", options.quantization_param_path, "JSON file of the FP8 KV cache's scales");
  command.add_option("--act-quant", options.act_quant, "on | off: inputs of quantised layers stay plain");
  command.add_option("--kv-cache-dtype", options.kv_cache_dtype, "auto | bf16 | float32 | fp8_e4m3 | fp8_e5m2 | int8");
  command.add_option("--attention-backend", options.attention_backend, "paged | reference");
  command.add_option("--context-length", options.context_length, "longest prompt and answer together (0: the model's)");
  command.add_option("--max-running-requests", options.max_running_requests, "requests computed at the same time");
  command.add_option("--chunked-prefill-size", options.chunked_prefill_size, "tokens of one step");
  command.add_option("--page-size", options.page_size, "tokens of a KV page");
  command.add_option("--max-total-tokens", options.max_total_tokens, "tokens of the KV pool (0: by memory)");
  command.add_option("--mem-fraction-static", options.mem_fraction_static, "share of the free memory that the KV pool may take");
  command.add_flag("--disable-radix-cache", options.disable_radix_cache, "no reuse of cached prefixes");
  command.add_option("--schedule-policy", options.schedule_policy, "fcfs | lpm (longest cached prefix first)");
  command.add_option("--max-queued-requests", options.max_queued_requests, "requests that may wait (0: no limit)");
  command.add_option("--mixed-prefill-size", options.mixed_prefill_size,
                     "prompt tokens, for each prompt there is, of a step that also decodes (0: no own limit)");
  command.add_option("--schedule-conservativeness", options.schedule_conservativeness, "scales what admission reserves for outputs");
  command.add_option("--chat-template", options.chat_template, "template file instead of the checkpoint's");
  command.add_option("--threads", options.threads, "threads of all ranks of the process (0: what it may use)");
  command.add_flag("--numa", options.numa, "keep each rank's threads and memory on a NUMA node of its own");
}

void add_prompt_options(CLI::App& command, PromptOptions& options) {
  CLI::Option* text = command.add_option("--prompt", options.text, "text, encoded with special tokens");
  CLI::Option* ids = command.add_option("--prompt-ids", options.ids, "token ids: 1,2,3");
  text->excludes(ids);
}

Status check_prompt(const PromptOptions& options) {
  if (!options.text && !options.ids) return error("--prompt or --prompt-ids is needed");
  if (options.ids) LAMINA_TRY(parse_ids(*options.ids, "--prompt-ids"));
  return {};
}

void add_prompt_command(CLI::App& command, CommandBody& body, Status (*run)(const PromptCommand&)) {
  const auto options = std::make_shared<PromptCommand>();
  add_engine_options(command, options->engine);
  add_prompt_options(command, options->prompt);
  accept_json(command);
  const auto check = [options]() -> Status {
    LAMINA_TRY(validate(options->engine));
    return check_prompt(options->prompt);
  };
  body_of(command, body, {.check = check, .run = [options, run] { return run(*options); }, .model = &options->engine});
}

Result<std::vector<TokenId>> parse_ids(std::string_view text, std::string_view flag) {
  std::vector<TokenId> ids;
  if (text.empty()) return ids;
  for (const std::string& piece : split(text, ',')) {
    const char* begin = piece.data() + std::min(piece.find_first_not_of(' '), piece.size());
    TokenId id = 0;
    const auto [end, fault] = std::from_chars(begin, piece.data() + piece.size(), id);
    if (fault != std::errc() || end != piece.data() + piece.size()) return error(flag, ": '", piece, "' is no token id");
    ids.push_back(id);
  }
  return ids;
}

Result<std::vector<TokenId>> prompt_ids(const PromptOptions& options, const Engine& engine) {
  if (options.ids) return parse_ids(*options.ids, "--prompt-ids");
  LAMINA_ASSIGN(const Tokenizer* tokenizer, engine.tokenizer());
  return tokenizer->encode(options.text.value_or(""), {});
}

EngineOptions with_environment(EngineOptions options) {
  options.isa = environment("LAMINA_ISA");
  options.disabled_archs = environment("LAMINA_DISABLED_ARCHS");
  return options;
}

LoadProgress progress_bar(const char* label) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [label](size_t done, size_t total) { draw_progress(label, done, total); };
}

Result<std::unique_ptr<Engine>> start_engine(const EngineOptions& options) {
  LAMINA_ASSIGN(std::unique_ptr<Engine> engine, Engine::start(with_environment(options), progress_bar("loading")));
  log_info(engine->info().start_line());
  return engine;
}

void accept_json(CLI::App& command) { command.add_flag("--json")->description("the output is JSON with and without it"); }

void print_json(const Json& value) { std::printf("%s\n", value.dump().c_str()); }

Json ids_json(const std::vector<TokenId>& ids) {
  Json out = Json::array();
  for (const TokenId id : ids) out.push(Json(int64_t{id}));
  return out;
}

std::vector<TokenId> random_prompt(int length, int64_t vocab, uint64_t stream) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i)
    ids.push_back(static_cast<TokenId>(uniform(1, stream, static_cast<uint64_t>(i)) * static_cast<double>(vocab)));
  return ids;
}

}  // namespace lamina
