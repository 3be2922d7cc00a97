#include "plan/model_plan.h"

#include <filesystem>
#include <unordered_set>

#include "base/strings.h"
#include "checkpoint/kv_scales_file.h"
#include "models/name_rules.h"
#include "weights/format/quantising.h"
#include "weights/tied.h"

namespace lamina {
namespace {

DType kv_dtype_of(const PlanOptions& options, DType model_dtype) {
  const std::string& name = options.kv_cache_dtype;
  if (name == "auto") return model_dtype == DType::kF32 ? DType::kF32 : DType::kBF16;
  if (name == "fp8_e4m3") return DType::kF8E4M3;
  if (name == "fp8_e5m2") return DType::kF8E5M2;
  if (name == "int8") return DType::kI8;
  return name == "float32" ? DType::kF32 : DType::kBF16;
}

Result<int64_t> context_length_of(const PlanOptions& options, const ModelConfig& config) {
  const int64_t model = config.context_length();
  if (options.context_length > model) {
    return error("--context-length ", options.context_length, ": the model goes up to ", model, " (max_position_embeddings)");
  }
  return options.context_length > 0 ? options.context_length : model;
}

Result<DType> dtype_of(const PlanOptions& options, const ModelSource& source) {
  if (options.dtype != "auto") return parse_torch_dtype(options.dtype);
  return resolve_dtype(source.config, source.checkpoint ? &*source.checkpoint : nullptr);
}

BoundaryOptions boundary_options(const PlanOptions& options) {
  using Rows = BoundaryOptions::Rows;
  return {.fused = options.boundary_plan == "fused",
          .rows = options.boundary_rows == "replicated"  ? Rows::kReplicated
                  : options.boundary_rows == "scattered" ? Rows::kScattered
                                                         : Rows::kAuto};
}

/// The parameter names that the checkpoint's tensors stand for.
std::function<bool(const std::string&)> tensor_names(const ModelSource& source) {
  if (!source.checkpoint) return nullptr;
  const NameMap names = decoder_name_map(source.config);
  auto all = std::make_shared<std::unordered_set<std::string>>();
  for (const TensorInfo& tensor : source.checkpoint->tensors()) all->insert(names.rename(tensor.name));
  return [all](const std::string& name) { return all->contains(name); };
}

std::unique_ptr<WeightFormat> make_format(const PlanOptions& options, const ModelSource& source) {
  if (!source.quant) return make_plain_format({source.dtype}, *source.kernels);
  QuantisedFormatOptions format{.model_dtype = source.dtype, .act_quant = options.act_quant == "on", .quantise = source.quantises};
  if (!source.quantises) format.holds = tensor_names(source);
  return make_quantised_format(*source.quant, std::move(format), *source.kernels);
}

/// What the checkpoint says, or else what the options make of it.
Status read_quantisation(const PlanOptions& options, ModelSource& source) {
  LAMINA_ASSIGN(source.quant, load_quant_config(source.config, options.model));
  if (options.quantization.empty()) return {};
  if (source.quant) {
    return error("--quantization ", options.quantization, ": the checkpoint is quantised already (", source.quant->method(), ", says ",
                 source.quant->source(), "); leave the flag out");
  }
  LAMINA_ASSIGN(source.quant, quantising_config(quantise_request(options)));
  source.quantises = true;
  return {};
}

/// A pattern of --quantization-ignore that matches nothing is a slip.
Status check_ignored(const PlanOptions& options, const ParamList& params) {
  if (options.quantization.empty()) return {};
  const QuantiseRequest request = quantise_request(options);
  LAMINA_ASSIGN(const QuantisePreset preset, quantise_preset(request));
  return check_matched(preset.ignore, params, request.ignore_flag);
}

Result<BuiltModel> build(const PlanOptions& options, const ModelSource& source, const ParallelGroups& groups, const WeightFormat& format,
                         const StageLayers& stage) {
  const ModelOptions model_options{
      .stage_boundaries = options.stage_boundaries, .dp_lm_head = options.topology.dp_lm_head, .boundaries = boundary_options(options)};
  return build_model(source.entry, source.config, model_options, groups, format, stage);
}

/// The scales that the checkpoint holds or its config promises; null: none.
std::shared_ptr<KvScales> add_kv_scales(const ModelSource& source, const StageLayers& stage, ParamList& params) {
  const bool promised = source.quant && source.quant->fp8_kv_cache() && source.quant->method() == "compressed-tensors";
  if (!promised && !(source.checkpoint && holds_kv_scales(*source.checkpoint))) return nullptr;
  return declare_kv_scales(stage, promised, params);
}

/// Those of --quantization-param-path, which go before the checkpoint's.
Status read_kv_scales(const PlanOptions& options, const ModelSource& source, ModelPlan& plan) {
  if (options.quantization_param_path.empty()) return {};
  const KvScalesWanted wanted{.model_type = source.config.model_type,
                              .layers = source.config.num_hidden_layers,
                              .tp_size = plan.topology.tp_size,
                              .tp_rank = plan.topology.tp_rank(plan.rank)};
  LAMINA_ASSIGN(const std::vector<float> scales, read_kv_scales_file(options.quantization_param_path, wanted));
  plan.kv_scales = std::make_shared<KvScales>(KvScales{.stage = plan.stage, .layers = {}});
  for (int64_t layer = plan.stage.begin; layer < plan.stage.end(); ++layer) {
    const float scale = scales[static_cast<size_t>(layer)];
    plan.kv_scales->layers.push_back({.k = scale, .v = scale, .has_k = true, .has_v = true});
  }
  return {};
}

/// Whether heads, sizes and layers of the model divide as `options.topology` asks: what its first rank's layers say.
Status check_topology(const PlanOptions& options, const ModelSource& source, const WeightFormat& format) {
  LAMINA_TRY(validate(options.topology));
  LAMINA_ASSIGN(const StageLayers stage, stage_layers(source.config.num_hidden_layers, options.topology, 0));
  LAMINA_ASSIGN(const ParallelGroups groups, ParallelGroups::planned(options.topology, 0));
  LAMINA_TRY(build(options, source, groups, format, stage));
  return {};
}

/// The whole model against the whole checkpoint, whatever a rank will hold of it.
Status audit_whole(const PlanOptions& options, ModelSource& source, const WeightFormat& format) {
  const ParallelGroups single = ParallelGroups::single();
  const StageLayers layers{0, source.config.num_hidden_layers};
  LAMINA_ASSIGN(const BuiltModel whole, build(options, source, single, format, layers));
  LAMINA_TRY(check_ignored(options, *whole.params));
  add_kv_scales(source, layers, *whole.params);
  source.report =
      source.checkpoint ? audit(*source.checkpoint, *whole.params, whole.model->names()) : AuditReport{.mixed = whole.params->faults()};
  const bool tied = source.checkpoint && source.config.tie_word_embeddings && source.report.clean();
  return tied ? check_tied_head(*source.checkpoint, whole.model->names()) : Status();
}

}  // namespace

QuantiseRequest quantise_request(const PlanOptions& options) {
  return {.scheme = options.quantization, .group_size = options.quantization_group_size, .ignore = options.quantization_ignore};
}

std::string folder_name(const std::string& path) {
  return std::filesystem::path(path + "/").lexically_normal().parent_path().filename().string();
}

Result<std::shared_ptr<const ModelSource>> audit_model_source(const PlanOptions& options, bool with_files) {
  auto source = std::make_shared<ModelSource>();
  LAMINA_ASSIGN(source->config, load_model_config(options.model, options.json_model_override_args));
  LAMINA_TRY(read_quantisation(options, *source));
  const ModelRegistry registry = ModelRegistry::create(options.external_models, options.disabled_archs);
  LAMINA_ASSIGN(const ModelEntry* entry, registry.find(source->config.architectures));
  source->entry = *entry;
  LAMINA_ASSIGN(source->context_length, context_length_of(options, source->config));
  LAMINA_ASSIGN(source->isa, choose_isa(decode_features(read_cpuid()), options.isa));
  source->kernels = &kernels::table(source->isa);
  if (with_files) {
    LAMINA_ASSIGN(source->checkpoint, Checkpoint::open(options.model));
  }
  LAMINA_ASSIGN(source->dtype, dtype_of(options, *source));
  source->kv_dtype = kv_dtype_of(options, source->dtype);
  const std::unique_ptr<WeightFormat> format = make_format(options, *source);
  LAMINA_TRY(audit_whole(options, *source, *format));
  if (source->report.clean()) LAMINA_TRY(check_topology(options, *source, *format));
  return std::shared_ptr<const ModelSource>(std::move(source));
}

Result<std::shared_ptr<const ModelSource>> read_model_source(const PlanOptions& options, bool with_files) {
  LAMINA_ASSIGN(std::shared_ptr<const ModelSource> source, audit_model_source(options, with_files));
  if (!source->report.clean()) return error(source->report.fault());
  return source;
}

Result<ModelPlan> plan_rank(const PlanOptions& options, std::shared_ptr<const ModelSource> source, ParallelGroups groups, int rank) {
  ModelPlan plan;
  plan.topology = options.topology;
  plan.rank = rank;
  plan.dp_padding = options.dp_padding;
  LAMINA_ASSIGN(plan.stage, stage_layers(source->config.num_hidden_layers, plan.topology, plan.topology.pp_rank(rank)));
  plan.groups = std::make_unique<ParallelGroups>(std::move(groups));
  plan.format = make_format(options, *source);
  plan.backend = options.attention_backend == "reference" ? make_reference_backend() : make_paged_backend(source->dtype == DType::kF32);
  LAMINA_ASSIGN(plan.built, build(options, *source, *plan.groups, *plan.format, plan.stage));
  LAMINA_TRY(plan.built.model->capture_before(options.capture_layers));
  ParamList& params = *plan.built.params;
  plan.kv_scales = add_kv_scales(*source, plan.stage, params);
  LAMINA_TRY(read_kv_scales(options, *source, plan));
  LAMINA_ASSIGN(plan.load, source->checkpoint ? plan_load(*source->checkpoint, params, plan.built.model->names(), LoadScope::kPart)
                                              : plan_dummy(params, source->dtype));
  plan.source = std::move(source);
  return plan;
}

Result<ModelPlan> make_model_plan(const PlanOptions& options, bool with_files) {
  LAMINA_CHECK(options.topology.world_size() == 1, "several ranks are planned one by one");
  LAMINA_ASSIGN(std::shared_ptr<const ModelSource> source, read_model_source(options, with_files));
  return plan_rank(options, std::move(source), ParallelGroups::single(), 0);
}

Status load_weights(const ModelPlan& plan, ThreadTeam& team, const LoadProgress& progress) {
  const ModelSource& source = *plan.source;
  if (!source.checkpoint) return execute_dummy(plan.load, team);
  LAMINA_TRY(execute_load(plan.load, *source.checkpoint, team, progress));
  return plan.kv_scales ? plan.kv_scales->complete() : Status();
}

}  // namespace lamina
