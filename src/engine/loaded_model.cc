#include "engine/loaded_model.h"

#include <chrono>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "weights/tied.h"

namespace lamina {
namespace {

DType kv_dtype_of(const EngineOptions& options, DType model_dtype) {
  if (options.kv_cache_dtype == "auto") return model_dtype == DType::kF32 ? DType::kF32 : DType::kBF16;
  return options.kv_cache_dtype == "float32" ? DType::kF32 : DType::kBF16;
}

Result<std::optional<Tokenizer>> load_tokenizer(const EngineOptions& options, const ModelConfig& config) {
  if (!file_exists(options.model + "/tokenizer.json")) return std::optional<Tokenizer>{};
  LAMINA_ASSIGN(Tokenizer tokenizer, Tokenizer::load(options.model));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return error(options.model, "/tokenizer.json has ids up to ", tokenizer.vocab_size() - 1, ", the embedding only ", config.vocab_size,
                 " rows (vocab_size)");
  }
  return std::optional<Tokenizer>(std::move(tokenizer));
}

Result<int64_t> context_length_of(const EngineOptions& options, const ModelConfig& config) {
  const int64_t model = config.context_length();
  if (options.context_length > model) {
    return error("--context-length ", options.context_length, ": the model goes up to ", model, " (max_position_embeddings)");
  }
  return options.context_length > 0 ? options.context_length : model;
}

Status choose_machine(const EngineOptions& options, LoadedModel& out) {
  LAMINA_ASSIGN(out.info.isa, choose_isa(decode_features(read_cpuid()), options.isa));
  const int cpus = usable_cpus();
  out.team = std::make_unique<ThreadTeam>(options.threads > 0 ? options.threads : cpus, cpus);
  out.info.threads = out.team->size();
  return {};
}

/// The audit comes before anything is reserved.
Result<LoadPlan> plan_weights(const EngineOptions& options, const BuiltModel& built, const std::optional<Checkpoint>& checkpoint,
                              DType dtype) {
  if (options.load_format == "dummy") return plan_dummy(*built.params, dtype);
  return plan_load(*checkpoint, *built.params, built.model->names());
}

/// A tied model may repeat its head; the embedding is used, and a head that differs is worth a warning.
void check_tied_head(const Checkpoint& checkpoint, const NameMap& names) {
  std::string_view head, embedding;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::string name = names.rename(tensor.name);
    if (name == "lm_head.weight") head = tensor.name;
    if (name == "model.embed_tokens.weight") embedding = tensor.name;
  }
  if (!head.empty() && !embedding.empty()) warn_if_tied_head_differs(checkpoint, head, embedding);
}

Status fill_weights(const LoadPlan& plan, const std::optional<Checkpoint>& checkpoint, LoadedModel& out, const LoadProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  if (checkpoint) {
    LAMINA_TRY(execute_load(plan, *checkpoint, *out.team, progress));
  } else {
    LAMINA_TRY(execute_dummy(plan, *out.team));
  }
  out.info.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {};
}

MemoryRequest memory_request(const EngineOptions& options, const EngineInfo& info) {
  MemoryRequest request;
  request.step_rows = std::max(options.chunked_prefill_size, options.max_running_requests);
  request.threads = info.threads;
  request.kv_dtype = info.kv_dtype;
  request.page_size = options.page_size;
  request.max_total_tokens = options.max_total_tokens;
  request.mem_fraction_static = options.mem_fraction_static;
  request.max_running_requests = options.max_running_requests;
  request.context_length = info.context_length;
  request.available = available_memory();
  return request;
}

}  // namespace

std::string EngineInfo::start_line() const {
  return cat("lamina: ", model, ", ", architecture, ", ", torch_dtype_name(dtype), ", ", isa_name(isa), ", ", threads,
             threads == 1 ? " thread, " : " threads, ", size_string(memory.weight_bytes), " weights, KV ", memory.kv_tokens(), " tokens in ",
             torch_dtype_name(kv_dtype));
}

Result<LoadedModel> load_model(const EngineOptions& options, const LoadProgress& progress) {
  LAMINA_TRY(validate(options));
  LoadedModel out;
  LAMINA_ASSIGN(out.config, load_model_config(options.model, options.json_model_override_args));
  LAMINA_TRY(out.config.require_unquantised());
  const ModelRegistry registry = ModelRegistry::create({}, options.disabled_archs);
  LAMINA_ASSIGN(const ModelEntry* entry, registry.find(out.config.architectures));
  LAMINA_ASSIGN(out.info.context_length, context_length_of(options, out.config));
  LAMINA_ASSIGN(const GenerationConfig generation, load_generation_config(options.model));
  out.eos_token_ids = stop_token_ids(out.config, generation);
  LAMINA_TRY(choose_machine(options, out));

  std::optional<Checkpoint> checkpoint;
  if (options.load_format != "dummy") {
    LAMINA_ASSIGN(checkpoint, Checkpoint::open(options.model));
  }
  out.info.dtype = resolve_dtype(out.config, checkpoint ? &*checkpoint : nullptr);
  if (options.dtype != "auto") {
    LAMINA_ASSIGN(out.info.dtype, parse_torch_dtype(options.dtype));
  }
  out.info.kv_dtype = kv_dtype_of(options, out.info.dtype);
  out.info.model = std::filesystem::path(options.model).lexically_normal().filename().string();
  out.info.architecture = entry->architecture;

  out.groups = std::make_unique<ParallelGroups>(ParallelGroups::single());
  const kernels::Kernels& kernels = kernels::table(out.info.isa);
  out.format = make_plain_format({out.info.dtype}, kernels);
  LAMINA_ASSIGN(BuiltModel built, build_model(*entry, out.config, {options.stage_boundaries}, *out.groups, *out.format));
  LAMINA_TRY(built.model->capture_before(options.capture_layers));
  LAMINA_ASSIGN(const LoadPlan load, plan_weights(options, built, checkpoint, out.info.dtype));
  LAMINA_ASSIGN(out.tokenizer, load_tokenizer(options, out.config));

  std::unique_ptr<AttentionBackend> backend =
      options.attention_backend == "reference" ? make_reference_backend() : make_paged_backend();
  LAMINA_ASSIGN(out.info.memory, plan_memory(*built.model, *backend, load.bytes, memory_request(options, out.info)));
  if (checkpoint && out.config.tie_word_embeddings) check_tied_head(*checkpoint, built.model->names());
  LAMINA_TRY(fill_weights(load, checkpoint, out, progress));
  out.info.audit = load.report;
  LAMINA_ASSIGN(out.runner, ModelRunner::create({.model = std::move(built),
                                                 .backend = std::move(backend),
                                                 .compute = {&kernels, out.team.get()},
                                                 .memory = out.info.memory,
                                                 .kv_dtype = out.info.kv_dtype,
                                                 .vocab_size = out.config.vocab_size}));
  return out;
}

}  // namespace lamina
