#include "plan/model_plan.h"

#include "base/strings.h"
#include "weights/tied.h"

namespace lamina {
namespace {

DType kv_dtype_of(const PlanOptions& options, DType model_dtype) {
  if (options.kv_cache_dtype == "auto") return model_dtype == DType::kF32 ? DType::kF32 : DType::kBF16;
  return options.kv_cache_dtype == "float32" ? DType::kF32 : DType::kBF16;
}

Result<int64_t> context_length_of(const PlanOptions& options, const ModelConfig& config) {
  const int64_t model = config.context_length();
  if (options.context_length > model) {
    return error("--context-length ", options.context_length, ": the model goes up to ", model, " (max_position_embeddings)");
  }
  return options.context_length > 0 ? options.context_length : model;
}

Result<DType> dtype_of(const PlanOptions& options, const ModelPlan& plan) {
  if (options.dtype != "auto") return parse_torch_dtype(options.dtype);
  return resolve_dtype(plan.config, plan.checkpoint ? &*plan.checkpoint : nullptr);
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

}  // namespace

Result<ModelPlan> make_model_plan(const PlanOptions& options, bool with_files) {
  ModelPlan plan;
  LAMINA_ASSIGN(plan.config, load_model_config(options.model, options.json_model_override_args));
  LAMINA_TRY(plan.config.require_unquantised());
  const ModelRegistry registry = ModelRegistry::create({}, options.disabled_archs);
  LAMINA_ASSIGN(const ModelEntry* entry, registry.find(plan.config.architectures));
  LAMINA_ASSIGN(plan.context_length, context_length_of(options, plan.config));
  LAMINA_ASSIGN(plan.isa, choose_isa(decode_features(read_cpuid()), options.isa));
  if (with_files) {
    LAMINA_ASSIGN(plan.checkpoint, Checkpoint::open(options.model));
  }
  LAMINA_ASSIGN(plan.dtype, dtype_of(options, plan));
  plan.kv_dtype = kv_dtype_of(options, plan.dtype);
  plan.kernels = &kernels::table(plan.isa);
  plan.groups = std::make_unique<ParallelGroups>(ParallelGroups::single());
  plan.format = make_plain_format({plan.dtype}, *plan.kernels);
  plan.backend = options.attention_backend == "reference" ? make_reference_backend() : make_paged_backend();
  LAMINA_ASSIGN(plan.built, build_model(*entry, plan.config, {options.stage_boundaries}, *plan.groups, *plan.format));
  LAMINA_TRY(plan.built.model->capture_before(options.capture_layers));
  LAMINA_ASSIGN(plan.load, plan.checkpoint ? plan_load(*plan.checkpoint, *plan.built.params, plan.built.model->names())
                                           : plan_dummy(*plan.built.params, plan.dtype));
  return plan;
}

Status load_weights(const ModelPlan& plan, ThreadTeam& team, const LoadProgress& progress) {
  if (!plan.checkpoint) return execute_dummy(plan.load, team);
  if (plan.config.tie_word_embeddings) check_tied_head(*plan.checkpoint, plan.built.model->names());
  return execute_load(plan.load, *plan.checkpoint, team, progress);
}

}  // namespace lamina
