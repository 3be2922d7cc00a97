#include "engine/loaded_model.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/cpu.h"
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

/// The ranks of this process before their weights are loaded.
struct Plans {
  std::shared_ptr<const ModelSource> source;
  std::vector<ModelPlan> ranks;
  std::vector<MemoryPlan> memory;
};

EngineInfo describe(const EngineOptions& options, const ModelPlan& plan) {
  EngineInfo info;
  info.topology = options.topology;
  info.model = folder_name(options.model);
  info.architecture = plan.built.architecture;
  info.dtype = plan.source->dtype;
  if (plan.source->quant) info.quantization = plan.source->quant->method();
  info.quantised_inputs = plan.source->quant && plan.source->quant->rounds_inputs() && options.act_quant == "on";
  info.kv_dtype = plan.source->kv_dtype;
  info.isa = plan.source->isa;
  info.context_length = plan.source->context_length;
  return info;
}

/// "tp 4, pp 2, dp-attention 2, " without what is 1.
std::string ranks_text(const Topology& topology) {
  std::string out;
  const auto add = [&](const char* name, int size) {
    if (size > 1) out += cat(name, " ", size, ", ");
  };
  add("tp", topology.tp_size);
  add("pp", topology.pp_size);
  add("dp-attention", topology.dp_attention);
  return out;
}

/// "bfloat16", or "bfloat16, gptq".
std::string weights_text(const EngineInfo& info) {
  return cat(torch_dtype_name(info.dtype), info.quantization.empty() ? "" : ", ", info.quantization);
}

/// What ranks must have in common.
std::string identity(const EngineOptions& options, const EngineInfo& info) {
  std::string stages;
  for (const int layers : info.topology.pp_layer_partition) stages += cat(" ", layers);
  return cat(info.model, ", ", info.architecture, ", ", weights_text(info), ", KV ", torch_dtype_name(info.kv_dtype), ", ",
             isa_name(info.isa), ", ", ranks_text(info.topology), "layers", stages, ", --boundary-plan ", options.boundary_plan,
             ", --act-quant ", options.act_quant, options.quantization_ignore.empty() ? "" : ", --quantization-ignore ",
             options.quantization_ignore);
}

/// Sums over all ranks; those of other processes are planned again for it.
Status add_totals(const EngineOptions& options, const Plans& plans, const RankSet& set, EngineInfo& info) {
  const auto add = [&](int rank, const ModelPlan& plan, int64_t kv_bytes) {
    info.weight_bytes += plan.load.bytes;
    if (options.topology.dp_rank(rank) == 0) info.kv_bytes_per_token += kv_bytes;
  };
  for (int rank = 0; rank < options.topology.world_size(); ++rank) {
    const size_t own = static_cast<size_t>(rank - set.first_rank);
    if (own < plans.ranks.size()) {
      add(rank, plans.ranks[own], plans.memory[own].kv_bytes_per_token);
      continue;
    }
    LAMINA_ASSIGN(ParallelGroups groups, ParallelGroups::planned(options.topology, rank));
    LAMINA_ASSIGN(const ModelPlan plan, plan_rank(options, plans.source, std::move(groups), rank));
    const MemoryRequest request = memory_request(options, *plans.source, set.threads_per_rank());
    add(rank, plan, fixed_memory(plan, request).kv_bytes_per_token);
  }
  return {};
}

/// All that can be known without reserving memory.
Status prepare(const EngineOptions& options, LoadedModel& out, Plans& plans) {
  LAMINA_TRY(require_fast_path(read_cpuid(), options.isa));
  LAMINA_ASSIGN(plans.source, read_model_source(options, options.load_format != "dummy"));
  out.config = plans.source->config;
  LAMINA_ASSIGN(const GenerationConfig generation, load_generation_config(options.model));
  out.eos_token_ids = stop_token_ids(out.config, generation);
  out.sampling_defaults = suggested_params(generation);
  if (const std::string sampling = suggested_sampling(generation); !sampling.empty() && out.set.first_rank == 0) {
    log_info(cat(options.model, "/generation_config.json suggests ", sampling, ": only serve follows it, where a request is silent"));
  }
  LAMINA_ASSIGN(out.tokenizer, load_tokenizer(options, out.config));
  LAMINA_ASSIGN(out.chat_templates, load_templates(options));
  MemoryRequest request = memory_request(options, *plans.source, out.set.threads_per_rank());
  request.processes = out.set.world != nullptr;
  if (out.set.world) request.available /= static_cast<uint64_t>(out.set.world->local_size());
  for (size_t r = 0; r < out.set.groups.size(); ++r) {
    const int rank = out.set.first_rank + static_cast<int>(r);
    const PlacedThread placed(out.set.ranks[r].team->place());
    LAMINA_ASSIGN(ModelPlan plan, plan_rank(options, plans.source, std::move(out.set.groups[r]), rank));
    plans.memory.push_back(fixed_memory(plan, request));
    plans.ranks.push_back(std::move(plan));
  }
  LAMINA_TRY(plan_pages(plans.memory, request));
  out.info = describe(options, plans.ranks.front());
  out.info.threads = out.set.threads();
  return add_totals(options, plans, out.set, out.info);
}

/// Each rank's weights by its own threads, all ranks at once: its memory is then touched first by who reads it.
Status load_ranks(Plans& plans, RankSet& set, const LoadProgress& progress) {
  std::vector<Status> loaded(plans.ranks.size());
  const auto load = [&](size_t r, const LoadProgress& told) {
    const PlacedThread placed(set.ranks[r].team->place());
    loaded[r] = load_weights(plans.ranks[r], *set.ranks[r].team, told);
  };
  std::vector<std::thread> others;
  for (size_t r = 1; r < loaded.size(); ++r) {
    try {
      others.emplace_back([&load, r] { load(r, {}); });
    } catch (const std::system_error&) {
      load(r, {});  // the system refuses a thread
    }
  }
  load(0, progress);
  for (std::thread& other : others) other.join();
  for (const Status& status : loaded) LAMINA_TRY(status);
  return {};
}

Status make_runners(Plans& plans, LoadedModel& out) {
  for (size_t r = 0; r < plans.ranks.size(); ++r) {
    RankResources& rank = out.set.ranks[r];
    MemoryPlan memory = plans.memory[r];
    const PlacedThread placed(rank.team->place());
    LAMINA_ASSIGN(rank.runner, ModelRunner::create(std::move(plans.ranks[r]), memory, *rank.team, out.eos_token_ids));
  }
  return {};
}

}  // namespace

std::string EngineInfo::start_line() const {
  return cat("lamina: ", model, ", ", architecture, ", ", weights_text(*this), ", ", isa_name(isa), ", ", ranks_text(topology), threads,
             threads == 1 ? " thread, " : " threads, ", size_string(weight_bytes), " weights, KV ", memory.kv_tokens(), " tokens in ",
             torch_dtype_name(kv_dtype));
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
  LoadedModel out;
  LAMINA_ASSIGN(out.set, open_ranks(options));
  Plans plans;
  LAMINA_TRY(agree(out.set, prepare(options, out, plans)));
  LAMINA_TRY(agree_on_build(out.set, identity(options, out.info)));
  int32_t& pages = plans.memory.front().pages;
  if (out.set.world) pages = checked_cast<int32_t>(out.set.world->all_min(pages));
  out.info.memory = plans.memory.front();
  const auto start = std::chrono::steady_clock::now();
  LAMINA_TRY(agree(out.set, load_ranks(plans, out.set, progress)));
  out.info.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  LAMINA_TRY(agree(out.set, make_runners(plans, out)));
  return out;
}

}  // namespace lamina
