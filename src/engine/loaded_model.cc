#include "engine/loaded_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"

namespace lamina {
namespace {

Result<std::optional<Tokenizer>> load_tokenizer(const EngineOptions& options, const ModelConfig& config) {
  if (!file_exists(options.model + "/tokenizer.json")) return std::optional<Tokenizer>{};
  LAMINA_ASSIGN(Tokenizer tokenizer, Tokenizer::load(options.model));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return error(options.model, "/tokenizer.json has ids up to ", tokenizer.vocab_size() - 1, ", the embedding only ", config.vocab_size,
                 " rows (vocab_size)");
  }
  return std::optional<Tokenizer>(std::move(tokenizer));
}

Result<ChatTemplates> load_templates(const EngineOptions& options) {
  Result<ChatTemplates> templates = ChatTemplates::load(options.model, options.chat_template);
  if (templates.ok() || !options.chat_template.empty()) return templates;
  return error(templates.error().message, " (--chat-template FILE gives another template)");
}

SamplingParams suggested_params(const GenerationConfig& generation) {
  SamplingParams params;
  const auto apply = [](const auto& value, auto& target) {
    if (value) target = static_cast<std::decay_t<decltype(target)>>(*value);
  };
  apply(generation.temperature, params.temperature);
  apply(generation.top_p, params.top_p);
  apply(generation.min_p, params.min_p);
  apply(generation.repetition_penalty, params.repetition_penalty);
  if (generation.top_k) params.top_k = *generation.top_k < 1 ? -1 : checked_cast<int>(std::min(*generation.top_k, int64_t{1} << 30));
  return params;
}

EngineInfo describe(const EngineOptions& options, const ModelPlan& plan) {
  EngineInfo info;
  info.model = std::filesystem::path(options.model + "/").lexically_normal().parent_path().filename().string();
  info.architecture = plan.built.architecture;
  info.dtype = plan.source->dtype;
  info.kv_dtype = plan.source->kv_dtype;
  info.isa = plan.source->isa;
  info.context_length = plan.source->context_length;
  return info;
}

}  // namespace

std::string EngineInfo::start_line() const {
  return cat("lamina: ", model, ", ", architecture, ", ", torch_dtype_name(dtype), ", ", isa_name(isa), ", ", threads,
             threads == 1 ? " thread, " : " threads, ", size_string(memory.weight_bytes), " weights, KV ", memory.kv_tokens(),
             " tokens in ", torch_dtype_name(kv_dtype));
}

MemoryRequest memory_request(const EngineOptions& options, const ModelSource& source, int threads) {
  MemoryRequest request;
  request.step_rows =
      largest_step(options.chunked_prefill_size, options.max_running_requests, options.topology.dp_attention, options.dp_padding);
  request.threads = threads;
  request.kv_dtype = source.kv_dtype;
  request.page_size = options.page_size;
  request.max_total_tokens = options.max_total_tokens;
  request.mem_fraction_static = options.mem_fraction_static;
  request.max_running_requests = options.max_running_requests;
  request.context_length = source.context_length;
  request.available = available_memory();
  return request;
}

Result<LoadedModel> load_model(const EngineOptions& options, const LoadProgress& progress) {
  LAMINA_TRY(validate(options));
  LAMINA_ASSIGN(ModelPlan plan, make_model_plan(options, options.load_format != "dummy"));
  LoadedModel out;
  LAMINA_ASSIGN(const GenerationConfig generation, load_generation_config(options.model));
  out.eos_token_ids = stop_token_ids(plan.source->config, generation);
  out.sampling_defaults = suggested_params(generation);
  if (const std::string sampling = suggested_sampling(generation); !sampling.empty()) {
    log_info(cat(options.model, "/generation_config.json suggests ", sampling, ": only serve follows it, where a request is silent"));
  }
  LAMINA_ASSIGN(out.tokenizer, load_tokenizer(options, plan.source->config));
  LAMINA_ASSIGN(out.chat_templates, load_templates(options));
  const int cpus = usable_cpus();
  out.team = std::make_unique<ThreadTeam>(options.threads > 0 ? options.threads : cpus, cpus);
  out.info = describe(options, plan);
  out.info.threads = out.team->size();
  LAMINA_ASSIGN(out.info.memory,
                plan_memory(*plan.built.model, *plan.backend, plan.load.bytes, memory_request(options, *plan.source, out.info.threads)));
  const auto start = std::chrono::steady_clock::now();
  LAMINA_TRY(load_weights(plan, *out.team, progress));
  out.info.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out.config = plan.source->config;
  LAMINA_ASSIGN(out.runner, ModelRunner::create(std::move(plan), out.info.memory, *out.team, out.eos_token_ids));
  return out;
}

}  // namespace lamina
