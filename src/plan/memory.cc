#include "plan/memory.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/strings.h"

namespace lamina {

std::string size_string(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < std::size(kUnits)) value /= 1000.0, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

int64_t largest_step(int64_t tokens, int64_t requests, int dp_attention, std::string_view dp_padding) {
  const int64_t rows = std::max(tokens, requests);
  if (dp_padding == "padded") return rows * dp_attention;
  if (dp_padding == "ragged") return rows;
  return std::max(rows, requests * std::min(dp_attention, 2));
}

MemoryPlan fixed_memory(const CausalLM& model, const AttentionBackend& backend, size_t weight_bytes, const MemoryRequest& request) {
  constexpr size_t kSlack = size_t{1} << 16;  // alignment of the arenas' allocations
  MemoryPlan plan;
  plan.weight_bytes = weight_bytes;
  plan.page_size = request.page_size;
  plan.context_length = request.context_length;
  plan.step_bytes = model.step_bytes(request.step_rows) + kSlack;
  plan.stage_bytes = model.stage_bytes(request.step_rows, backend, request.threads) + kSlack;
  plan.kv_bytes_per_token = KvStore::bytes_per_token(model.kv_shapes(), request.kv_dtype);
  return plan;
}

Status plan_pages(std::span<MemoryPlan> ranks, const MemoryRequest& request) {
  size_t weights = 0, arenas = 0;
  int64_t kv_bytes_per_token = 0;
  for (const MemoryPlan& rank : ranks) {
    weights += rank.weight_bytes;
    arenas += rank.arena_bytes();
    kv_bytes_per_token += rank.kv_bytes_per_token;
  }
  const std::string of_ranks = ranks.size() > 1 ? cat(" of ", ranks.size(), " ranks") : "";
  if (weights + arenas > request.available) {
    return error("not enough memory: weights", of_ranks, " need ", size_string(weights), " and a step of ", request.step_rows, " tokens ",
                 size_string(arenas), ", available are ", size_string(request.available));
  }
  const double left = request.mem_fraction_static * static_cast<double>(request.available - weights - arenas);
  int64_t tokens = static_cast<int64_t>(left / static_cast<double>(kv_bytes_per_token));
  if (request.max_total_tokens > 0) tokens = std::min(tokens, request.max_total_tokens);
  if (request.context_length > 0) {
    tokens = std::min(tokens, request.max_running_requests * (request.context_length + request.page_size));
  }
  const int64_t pages = std::min<int64_t>(tokens / request.page_size, std::numeric_limits<int32_t>::max() / request.page_size);
  if (pages < 1) {
    return error("no room for a KV cache: one page of ", request.page_size, " tokens", of_ranks, " takes ",
                 size_string(static_cast<uint64_t>(request.page_size * kv_bytes_per_token)), ", the pool may take ", tokens,
                 " tokens (--mem-fraction-static, --max-total-tokens)");
  }
  for (MemoryPlan& rank : ranks) rank.pages = static_cast<int32_t>(pages);
  return {};
}

Result<MemoryPlan> plan_memory(const CausalLM& model, const AttentionBackend& backend, size_t weight_bytes, const MemoryRequest& request) {
  MemoryPlan plan = fixed_memory(model, backend, weight_bytes, request);
  LAMINA_TRY(plan_pages({&plan, 1}, request));
  return plan;
}

}  // namespace lamina
