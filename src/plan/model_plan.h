#pragma once
// A model before a byte of it is reserved: config, class, shells, files, audit.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "checkpoint/config.h"
#include "checkpoint/quant_config.h"
#include "checkpoint/quant_presets.h"
#include "checkpoint/safetensors.h"
#include "models/registry.h"
#include "weights/format.h"
#include "weights/kv_scales.h"
#include "weights/loader.h"

namespace lamina {

/// What decides the shape of a model; names as on the command line.
struct PlanOptions {
  std::string model;                        // checkpoint folder
  std::string json_model_override_args;     // JSON object merged over config.json
  std::string load_format = "auto";         // auto | dummy
  std::string dtype = "auto";               // auto | bfloat16 | float16 | half | float32
  std::string quantization;                 // int8 | int4 | fp8: a plain checkpoint is quantised while it is loaded; empty: not
  int64_t quantization_group_size = 0;      // int4: 32 | 128; 0: 32
  std::string quantization_ignore;          // modules left plain, separated by commas; "re:" and a regular expression
  std::string act_quant = "on";             // on | off: inputs stay plain whatever the checkpoint's format says
  std::string kv_cache_dtype = "auto";      // auto | bf16 | float32 | fp8_e4m3 | fp8_e5m2 | int8 (a scale a head and token)
  std::string quantization_param_path;      // JSON file of the KV cache's scales; empty: those of the checkpoint, if any
  std::string attention_backend = "paged";  // paged | reference
  int64_t context_length = 0;               // 0: the model's
  std::string isa;                          // LAMINA_ISA: ref | avx2 | avx512f | avx512 | neon; empty: the best
  std::string disabled_archs;               // LAMINA_DISABLED_ARCHS
  std::vector<ModelEntry> external_models;  // come before the built-in ones; what they name lives as long as the process
  bool stage_boundaries = true;
  Topology topology;                    // --tp-size, --pp-size, --dp-attention, --enable-dp-lm-head, --pp-layer-partition
  std::string boundary_plan = "fused";  // --boundary-plan: fused | reference (one operation after the other); the same bits
  std::string boundary_rows = "auto";   // --boundary-rows: auto | replicated | scattered, the residual between ranks; the same bits
  std::string dp_padding = "auto";      // --dp-padding: auto | padded | ragged; the same bits
  std::vector<int64_t> capture_layers;  // hidden states before these layers come with all_logits requests
};

/// What all ranks of a process share: read and audited once.
struct ModelSource {
  ModelConfig config;
  ModelEntry entry;
  std::optional<QuantConfig> quant;      // none: a plain model
  bool quantises = false;                // the checkpoint is plain, `quant` is what --quantization makes of it
  std::optional<Checkpoint> checkpoint;  // none: dummy values, or a plan without files
  DType dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  int64_t context_length = 0;
  Isa isa = Isa::kRef;
  const kernels::Kernels* kernels = nullptr;
  AuditReport report;  // of the whole checkpoint against all layers, whatever this rank holds of it; clean where a model is planned
};

/// What PlanOptions::quantization asks for, which must not be empty.
QuantiseRequest quantise_request(const PlanOptions& options);

/// The name of a checkpoint folder, whatever its path.
std::string folder_name(const std::string& path);

/// One rank's model. Members are destroyed in reverse order.
struct ModelPlan {
  std::shared_ptr<const ModelSource> source;  // owners: the plans of the process's ranks, and whoever made them
  Topology topology;
  int rank = 0;  // in the world
  StageLayers stage;
  std::string dp_padding;  // PlanOptions::dp_padding, which the runner follows
  std::unique_ptr<ParallelGroups> groups;
  std::unique_ptr<WeightFormat> format;
  std::unique_ptr<AttentionBackend> backend;
  BuiltModel built;
  std::shared_ptr<KvScales> kv_scales;  // of the stage's layers; null: neither checkpoint nor options say any. Owners: the plan, its stores
  LoadPlan load;
};

/// Config -> class -> file headers -> shells of the whole model -> audit of names and shapes. `with_files` false: no files are read.
/// Refuses with one error that names file, tensor, key or flag; options are valid already.
Result<std::shared_ptr<const ModelSource>> read_model_source(const PlanOptions& options, bool with_files);
/// The same, but the faults that the audit found are in the report instead of an error: for whoever shows them all. Plan only what is
/// clean.
Result<std::shared_ptr<const ModelSource>> audit_model_source(const PlanOptions& options, bool with_files);
/// The shells of one rank and where the rows of its parameters come from. `groups` are those of `rank` in options.topology.
Result<ModelPlan> plan_rank(const PlanOptions& options, std::shared_ptr<const ModelSource> source, ParallelGroups groups, int rank);
/// Both, for a topology of one rank.
Result<ModelPlan> make_model_plan(const PlanOptions& options, bool with_files);

/// Reserves and fills the weights of a plan.
Status load_weights(const ModelPlan& plan, ThreadTeam& team, const LoadProgress& progress);

}  // namespace lamina
