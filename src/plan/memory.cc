#include "plan/memory.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/strings.h"
#include "layers/logits.h"

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

namespace {

/// A stage keeps what it handed over until the next one takes it: residual and unreduced output of every plan in flight.
int64_t handed_over(const ModelPlan& plan, int64_t floats) {
  const Topology& topology = plan.topology;
  return topology.pp_rank(plan.rank) + 1 < topology.pp_size ? 2 * topology.pp_size * floats : 0;
}

/// Floats that an MPI communicator holds of a step's `rows` rows: parts of its peers, and rows packed side by side.
int64_t parts_of_peers(const ModelPlan& plan, int64_t rows, int64_t cols) {
  const Topology& topology = plan.topology;
  const auto sums = [&](int64_t size) { return size < 2 ? 0 : (size == 2 ? 2 * rows : rows + size) * cols + rows * cols; };
  int64_t floats = sums(topology.tp_size);
  if (topology.dp_attention > 1)
    floats += sums(topology.attn_tp()) + (topology.dp_attention + 1) * rows * cols;  // any rank may have all rows
  const int64_t head = topology.dp_lm_head ? topology.attn_tp() : topology.tp_size;
  if (head > 1 && plan.stage.end() == plan.source->config.num_hidden_layers) {
    floats += LogitsProcessor::kLogitsChunk * (plan.source->config.vocab_size + kVocabPad * head);
  }
  return floats;
}

}  // namespace

MemoryPlan fixed_memory(const ModelPlan& plan, const MemoryRequest& request) {
  constexpr size_t kSlack = size_t{1} << 16;  // alignment of the arenas' allocations
  const CausalLM& model = *plan.built.model;
  const int64_t hidden = plan.source->config.hidden_size;
  MemoryPlan out;
  out.weight_bytes = plan.load.bytes;
  out.page_size = request.page_size;
  out.context_length = request.context_length;
  out.step_bytes = model.step_bytes(request.step_rows) + kSlack;
  out.stage_bytes = model.stage_bytes(request.step_rows, *plan.backend, request.threads) + kSlack;
  out.scratch_bytes = plan.format->scratch_bytes();
  const int64_t floats =
      handed_over(plan, request.step_rows * hidden) + (request.processes ? parts_of_peers(plan, request.step_rows, hidden) : 0);
  out.exchange_bytes = static_cast<size_t>(floats) * sizeof(float);
  out.kv_bytes_per_token = KvStore::bytes_per_token(model.kv_shapes(), request.kv_dtype);
  return out;
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

}  // namespace lamina
