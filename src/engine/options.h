#pragma once
// What `lamina` commands can say about a model; names as on the command line.

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/topology.h"

namespace lamina {

struct EngineOptions {
  std::string model;                        // checkpoint folder
  std::string json_model_override_args;     // JSON object merged over config.json
  std::string load_format = "auto";         // auto | dummy
  std::string dtype = "auto";               // auto | bfloat16 | float16 | half | float32
  std::string kv_cache_dtype = "auto";      // auto | bf16 | float32
  std::string attention_backend = "paged";  // paged | reference
  int64_t context_length = 0;               // 0: the model's
  int max_running_requests = 256;
  int chunked_prefill_size = 512;
  int page_size = 16;
  int64_t max_total_tokens = 0;  // 0: by memory
  double mem_fraction_static = 0.8;
  int threads = 0;               // 0: what affinity and cgroups allow
  std::string isa;               // LAMINA_ISA: ref | avx2 | avx512; empty: the best
  std::string disabled_archs;    // LAMINA_DISABLED_ARCHS
  bool stage_boundaries = true;
  std::vector<int64_t> capture_layers;  // hidden states before these layers come with all_logits requests
};

/// Checks ranges and spellings; the error names the flag, the value and what is allowed.
Status validate(const EngineOptions& options);

}  // namespace lamina
