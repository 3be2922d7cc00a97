#pragma once
// Start-up: config -> file headers and audit of names and shapes -> tokenizer -> memory plan -> reserve -> load.

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/generation_config.h"
#include "checkpoint/safetensors.h"
#include "engine/options.h"
#include "models/registry.h"
#include "plan/memory.h"
#include "runner/model_runner.h"
#include "text/tokenizer.h"
#include "weights/loader.h"

namespace lamina {

/// What a user wants to know once the model stands.
struct EngineInfo {
  std::string model;         // name of the folder
  std::string architecture;
  DType dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  Isa isa = Isa::kRef;
  int threads = 1;
  MemoryPlan memory;
  int64_t context_length = 0;
  double load_seconds = 0;
  AuditReport audit;

  /// "lamina: demo, LlamaForCausalLM, bfloat16, avx512, 2 threads, 11.0 MB weights, KV 24576 tokens in bf16"
  std::string start_line() const;
};

/// A model ready to run, with everything the engine needs around it. Members are destroyed in reverse order.
struct LoadedModel {
  ModelConfig config;
  std::vector<TokenId> eos_token_ids;
  std::optional<Tokenizer> tokenizer;  // none when the folder has no tokenizer.json
  EngineInfo info;
  std::unique_ptr<ThreadTeam> team;
  std::unique_ptr<ParallelGroups> groups;
  std::unique_ptr<WeightFormat> format;
  std::unique_ptr<ModelRunner> runner;
};

/// The plan that `lamina inspect` prints (plan/inspect.h). Needs only config.json; files of weights are audited when there are any.
Result<Json> plan_model(const EngineOptions& options);

/// Refuses before memory for weights is reserved, with one error that names file, tensor, key or flag.
Result<LoadedModel> load_model(const EngineOptions& options, const LoadProgress& progress);

}  // namespace lamina
