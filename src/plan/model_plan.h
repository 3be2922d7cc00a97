#pragma once
// A model before a byte of it is reserved: config, class, shells, files, audit.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "models/registry.h"
#include "weights/format.h"
#include "weights/loader.h"

namespace lamina {

/// What decides the shape of a model; names as on the command line.
struct PlanOptions {
  std::string model;                        // checkpoint folder
  std::string json_model_override_args;     // JSON object merged over config.json
  std::string load_format = "auto";         // auto | dummy
  std::string dtype = "auto";               // auto | bfloat16 | float16 | half | float32
  std::string kv_cache_dtype = "auto";      // auto | bf16 | float32
  std::string attention_backend = "paged";  // paged | reference
  int64_t context_length = 0;               // 0: the model's
  std::string isa;                          // LAMINA_ISA: ref | avx2 | avx512; empty: the best
  std::string disabled_archs;               // LAMINA_DISABLED_ARCHS
  bool stage_boundaries = true;
  std::vector<int64_t> capture_layers;  // hidden states before these layers come with all_logits requests
};

/// Members are destroyed in reverse order.
struct ModelPlan {
  ModelConfig config;
  std::optional<Checkpoint> checkpoint;  // none: dummy values, or a plan without files
  DType dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  int64_t context_length = 0;
  Isa isa = Isa::kRef;
  const kernels::Kernels* kernels = nullptr;
  std::unique_ptr<ParallelGroups> groups;
  std::unique_ptr<WeightFormat> format;
  std::unique_ptr<AttentionBackend> backend;
  BuiltModel built;
  LoadPlan load;
};

/// Config -> class -> file headers -> shells -> audit of names and shapes. `with_files` false: parameters are planned without files.
/// Refuses with one error that names file, tensor, key or flag; options are valid already.
Result<ModelPlan> make_model_plan(const PlanOptions& options, bool with_files);

/// Reserves and fills the weights of a plan.
Status load_weights(const ModelPlan& plan, ThreadTeam& team, const LoadProgress& progress);

}  // namespace lamina
