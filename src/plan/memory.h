#pragma once
// Memory of the ranks, fixed before anything is reserved.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/model_plan.h"

namespace lamina {

struct MemoryRequest {
  int64_t step_rows = 512;  // rows of the largest step over all attention-DP ranks: largest_step()
  int threads = 1;          // of one rank
  bool processes = false;   // ranks are processes, which keep copies of what they exchange
  DType kv_dtype = DType::kBF16;
  int page_size = 16;
  int64_t max_total_tokens = 0;      // of one pool; 0: no limit of its own
  double mem_fraction_static = 0.8;  // of what is left after weights and arenas
  int64_t max_running_requests = 256;
  int64_t context_length = 0;
  uint64_t available = 0;  // bytes that the ranks planned together share; processes of one machine get equal parts of what it has
};

/// Rows of the largest step when a step holds at most `tokens` tokens, `requests` of them without a prompt: with attention data
/// parallelism the padding of --dp-padding counts (auto pads only where that at most doubles the rows of a decode step).
int64_t largest_step(int64_t tokens, int64_t requests, int dp_attention, std::string_view dp_padding);

/// One rank's.
struct MemoryPlan {
  size_t weight_bytes = 0;
  size_t step_bytes = 0;      // lives through a step
  size_t stage_bytes = 0;     // of one stage; two are held
  size_t scratch_bytes = 0;   // that matmuls of quantised layers share
  size_t exchange_bytes = 0;  // copies of what goes to other ranks and comes from them, at most; taken as they are needed
  int64_t kv_bytes_per_token = 0;
  int64_t context_length = 0;  // that the model may use
  int32_t pages = 0;           // real pages; the same number on every rank
  int page_size = 16;

  size_t arena_bytes() const { return step_bytes + 2 * stage_bytes + scratch_bytes + exchange_bytes; }
  size_t fixed_bytes() const { return weight_bytes + arena_bytes(); }
  int64_t kv_tokens() const { return int64_t{pages} * page_size; }
  size_t kv_bytes() const { return static_cast<size_t>(kv_tokens() * kv_bytes_per_token); }
  /// Longest prompt and output of one request: the model's context, or the whole pool where that is smaller.
  int64_t largest_context() const { return std::min(context_length, kv_tokens()); }
};

/// Weights, memory of a step and KV bytes a token; no pages yet.
MemoryPlan fixed_memory(const ModelPlan& plan, const MemoryRequest& request);

/// Gives ranks that share `request.available` (threads of a process) their pages, the same number to each:
/// KV tokens = min(max_total_tokens, mem_fraction * (available - weights - arenas) / bytes a token, max_running * context), in whole
/// pages; weights, arenas and bytes a token are the sums over the ranks. Processes then agree on the least of their numbers.
/// An error that names the bytes needed and available when weights and arenas do not fit or not one page is left; no rank has pages then.
Status plan_pages(std::span<MemoryPlan> ranks, const MemoryRequest& request);

/// "1.25 GB", "312.0 MB"
std::string size_string(uint64_t bytes);

}  // namespace lamina
