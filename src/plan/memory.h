#pragma once
// Memory of one rank, fixed before anything is reserved.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "models/causal_lm.h"

namespace lamina {

struct MemoryRequest {
  int64_t step_rows = 512;  // rows of the largest step
  int threads = 1;
  DType kv_dtype = DType::kBF16;
  int page_size = 16;
  int64_t max_total_tokens = 0;      // 0: no limit of its own
  double mem_fraction_static = 0.8;  // of what is left after weights and arena
  int64_t max_running_requests = 256;
  int64_t context_length = 0;
  uint64_t available = 0;  // bytes
};

struct MemoryPlan {
  size_t weight_bytes = 0;
  size_t step_bytes = 0;   // lives through a step
  size_t stage_bytes = 0;  // of one stage; two are held
  int64_t kv_bytes_per_token = 0;
  int32_t pages = 0;  // real pages
  int page_size = 16;

  size_t arena_bytes() const { return step_bytes + 2 * stage_bytes; }
  int64_t kv_tokens() const { return int64_t{pages} * page_size; }
  size_t kv_bytes() const { return static_cast<size_t>(kv_tokens() * kv_bytes_per_token); }
};

/// Weights, step memory and KV bytes a token; no pages yet.
MemoryPlan fixed_memory(const CausalLM& model, const AttentionBackend& backend, size_t weight_bytes, const MemoryRequest& request);

/// KV tokens = min(max_total_tokens, mem_fraction * (available - weights - arena) / bytes a token, max_running * context), in whole pages.
/// An error that names the bytes needed and available when weights and arena do not fit or not one page is left.
Result<MemoryPlan> plan_memory(const CausalLM& model, const AttentionBackend& backend, size_t weight_bytes, const MemoryRequest& request);

/// "1.25 GB", "312.0 MB"
std::string size_string(uint64_t bytes);

}  // namespace lamina
