#pragma once
// Start-up: config -> file headers and audit of names and shapes -> tokenizer -> chat templates -> memory plan -> reserve -> load.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "checkpoint/generation_config.h"
#include "engine/ranks.h"
#include "plan/memory.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lamina {

/// What a user wants to know once the model stands.
struct EngineInfo {
  std::string model;  // name of the folder
  std::string architecture;
  DType dtype = DType::kBF16;
  std::string quantization;       // "gptq"; of --quantization "int8", "int4 g32", "fp8"; empty: plain weights
  bool quantised_inputs = false;  // of some layers
  DType kv_dtype = DType::kBF16;
  Isa isa = Isa::kRef;
  Topology topology;
  int threads = 1;                 // of this process, all its ranks together
  MemoryPlan memory;               // of this process's first rank; pages are those of each rank
  size_t weight_bytes = 0;         // of all ranks
  int64_t kv_bytes_per_token = 0;  // of all ranks that hold a token
  int64_t context_length = 0;
  double load_seconds = 0;

  /// "lamina: demo, LlamaForCausalLM, bfloat16, int4 g32, avx512, 2 threads, 11.0 MB weights, KV 24576 tokens in bfloat16"; with several
  /// ranks their topology stands before the threads.
  std::string start_line() const;
};

/// A model ready to run, with what the engine needs around it. Members are destroyed in reverse order.
struct LoadedModel {
  ModelConfig config;
  std::vector<TokenId> eos_token_ids;
  SamplingParams sampling_defaults;    // with what generation_config.json suggests
  std::optional<Tokenizer> tokenizer;  // none when the folder has no tokenizer.json
  ChatTemplates chat_templates;        // none when the folder has none
  EngineInfo info;
  RankSet set;
};

/// What the memory of a rank with `threads` threads is planned for; all that the machine has is available.
MemoryRequest memory_request(const EngineOptions& options, const ModelSource& source, int threads);

/// The plan that `lamina inspect` prints (plan/inspect.h), for any topology: inspect_json, or refused_json of weight files that the audit
/// refuses. Needs only config.json. `memory_per_rank` bytes: what each rank has; 0: the ranks share this machine's memory.
Result<Json> inspect_model(const EngineOptions& options, uint64_t memory_per_rank = 0);

/// Refuses before memory for weights is reserved, with one error that names file, tensor, key or flag. Under mpirun every process calls
/// it, and all of them refuse when one does (see agree()).
Result<LoadedModel> load_model(const EngineOptions& options, const LoadProgress& progress);

}  // namespace lamina
