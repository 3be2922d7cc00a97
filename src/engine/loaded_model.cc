#include "engine/loaded_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "plan/inspect.h"
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

std::unique_ptr<AttentionBackend> make_backend(const EngineOptions& options) {
  return options.attention_backend == "reference" ? make_reference_backend() : make_paged_backend();
}

/// Everything that is known before a byte is reserved. Members are destroyed in reverse order.
struct Prepared {
  ModelConfig config;
  EngineInfo info;
  std::optional<Checkpoint> checkpoint;
  const kernels::Kernels* kernels = nullptr;
  std::unique_ptr<ParallelGroups> groups;
  std::unique_ptr<WeightFormat> format;
  BuiltModel built;
  LoadPlan load;
};

/// Config, class, files, audit. `with_files` false: parameters are planned without their files.
Result<Prepared> prepare(const EngineOptions& options, bool with_files) {
  LAMINA_TRY(validate(options));
  Prepared out;
  LAMINA_ASSIGN(out.config, load_model_config(options.model, options.json_model_override_args));
  LAMINA_TRY(out.config.require_unquantised());
  const ModelRegistry registry = ModelRegistry::create({}, options.disabled_archs);
  LAMINA_ASSIGN(const ModelEntry* entry, registry.find(out.config.architectures));
  LAMINA_ASSIGN(out.info.context_length, context_length_of(options, out.config));
  LAMINA_ASSIGN(out.info.isa, choose_isa(decode_features(read_cpuid()), options.isa));
  if (with_files) {
    LAMINA_ASSIGN(out.checkpoint, Checkpoint::open(options.model));
  }
  out.info.dtype = resolve_dtype(out.config, out.checkpoint ? &*out.checkpoint : nullptr);
  if (options.dtype != "auto") {
    LAMINA_ASSIGN(out.info.dtype, parse_torch_dtype(options.dtype));
  }
  out.info.kv_dtype = kv_dtype_of(options, out.info.dtype);
  out.info.model = std::filesystem::path(options.model + "/").lexically_normal().parent_path().filename().string();
  out.info.architecture = entry->architecture;
  out.kernels = &kernels::table(out.info.isa);
  out.groups = std::make_unique<ParallelGroups>(ParallelGroups::single());
  out.format = make_plain_format({out.info.dtype}, *out.kernels);
  LAMINA_ASSIGN(out.built, build_model(*entry, out.config, {options.stage_boundaries}, *out.groups, *out.format));
  LAMINA_TRY(out.built.model->capture_before(options.capture_layers));
  LAMINA_ASSIGN(out.load, out.checkpoint ? plan_load(*out.checkpoint, *out.built.params, out.built.model->names())
                                         : plan_dummy(*out.built.params, out.info.dtype));
  out.info.audit = out.load.report;
  return out;
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

Status fill_weights(const Prepared& prepared, LoadedModel& out, const LoadProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  LAMINA_TRY(prepared.checkpoint ? execute_load(prepared.load, *prepared.checkpoint, *out.team, progress)
                                 : execute_dummy(prepared.load, *out.team));
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

Result<Json> plan_model(const EngineOptions& options) {
  const Result<std::vector<std::string>> entries = list_folder(options.model);
  const bool has_files = entries.ok() && std::any_of(entries->begin(), entries->end(), [](const std::string& name) {
                           return name.find(".safetensors") != std::string::npos;
                         });
  LAMINA_ASSIGN(Prepared prepared, prepare(options, has_files && options.load_format != "dummy"));
  prepared.info.threads = options.threads > 0 ? options.threads : usable_cpus();
  const MemoryRequest request = memory_request(options, prepared.info);
  const std::unique_ptr<AttentionBackend> backend = make_backend(options);
  const Result<MemoryPlan> memory = plan_memory(*prepared.built.model, *backend, prepared.load.bytes, request);
  return inspect_json({.config = prepared.config,
                       .built = prepared.built,
                       .load = prepared.load,
                       .checkpoint = prepared.checkpoint ? &*prepared.checkpoint : nullptr,
                       .memory = memory.ok() ? *memory : fixed_memory(*prepared.built.model, *backend, prepared.load.bytes, request),
                       .dtype = prepared.info.dtype,
                       .kv_dtype = prepared.info.kv_dtype});
}

Result<LoadedModel> load_model(const EngineOptions& options, const LoadProgress& progress) {
  LAMINA_ASSIGN(Prepared prepared, prepare(options, options.load_format != "dummy"));
  LoadedModel out;
  LAMINA_ASSIGN(const GenerationConfig generation, load_generation_config(options.model));
  out.eos_token_ids = stop_token_ids(prepared.config, generation);
  LAMINA_ASSIGN(out.tokenizer, load_tokenizer(options, prepared.config));
  const int cpus = usable_cpus();
  out.team = std::make_unique<ThreadTeam>(options.threads > 0 ? options.threads : cpus, cpus);
  out.info = prepared.info;
  out.info.threads = out.team->size();
  std::unique_ptr<AttentionBackend> backend = make_backend(options);
  LAMINA_ASSIGN(out.info.memory,
                plan_memory(*prepared.built.model, *backend, prepared.load.bytes, memory_request(options, out.info)));
  if (prepared.checkpoint && prepared.config.tie_word_embeddings) check_tied_head(*prepared.checkpoint, prepared.built.model->names());
  LAMINA_TRY(fill_weights(prepared, out, progress));
  const int64_t vocab_size = prepared.config.vocab_size;
  out.config = std::move(prepared.config);
  out.groups = std::move(prepared.groups);
  out.format = std::move(prepared.format);
  LAMINA_ASSIGN(out.runner, ModelRunner::create({.model = std::move(prepared.built),
                                                 .backend = std::move(backend),
                                                 .compute = {prepared.kernels, out.team.get()},
                                                 .memory = out.info.memory,
                                                 .kv_dtype = out.info.kv_dtype,
                                                 .vocab_size = vocab_size}));
  return out;
}

}  // namespace lamina
