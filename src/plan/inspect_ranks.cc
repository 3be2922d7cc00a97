// Ranks, pipeline stages, boundaries and memory.

#include <algorithm>

#include "plan/accounting.h"
#include "plan/inspect_parts.h"

namespace lamina {
namespace {

/// The first parameter with a part of `rule`, cut for this rank.
struct Share {
  const Param* param = nullptr;
  ShardCut rows;
  int64_t unit = 1;
};

Result<std::vector<Share>> shares_of(const ModelPlan& rank, ShardRule rule) {
  std::vector<Share> out;
  for (const auto& param : rank.built.params->all()) {
    for (const ParamPart& part : param->parts) {
      if (part.rows.rule != rule) continue;
      LAMINA_ASSIGN(const ShardCut rows, cut(part.rows, param->name));
      out.push_back({param.get(), rows, part.rows.unit});
    }
    if (rule != ShardRule::kVocab && !out.empty()) break;  // layers are alike
  }
  return out;
}

/// Bytes of a row that goes from a stage to the next: the residual as its ranks hold it and the last layer's unreduced output.
Json hand_over_json(const ModelPlan& rank) {
  const int64_t row = rank.source->config.hidden_size * static_cast<int64_t>(sizeof(float));
  Json out;
  out.set("to_stage", rank.topology.pp_rank(rank.rank) + 1);
  out.set("wire_bytes_per_row", row * (rank.topology.attn_tp() + rank.topology.tp_size));
  out.set("wire_bytes_per_row_scattered", row * (1 + rank.topology.tp_size));
  return out;
}

Json boundary_json(const BoundarySummary& summary, const ModelPlan& rank) {
  const ModelSource& source = *rank.source;
  // The final norm's rows are chosen from before they are rounded.
  const int64_t activation = dtype_bytes(summary.norm == nullptr ? DType::kF32 : summary.norm->output_dtype());
  Json out, variants = Json::array();
  for (const BoundarySummary::Variant& variant : summary.variants) {
    Json line;
    line.set("variant", variant_name(variant.variant));
    line.set("plan", variant.words);
    line.set("wire_bytes_per_row", wire_bytes_per_row(variant.plan, source.config.hidden_size, activation));
    variants.push(std::move(line));
  }
  out.set("stage", summary.stage);
  out.set("plan", summary.plan);
  out.set("pipeline_stage", rank.topology.pp_rank(rank.rank));
  out.set("variants", std::move(variants));
  return out;
}

Json amount_json(const Accounting::Amount& amount) {
  Json out;
  out.set("elements", amount.elements);
  out.set("bytes", amount.bytes);
  return out;
}

}  // namespace

void set_stages(std::span<const ModelPlan> ranks, Json& out) {
  Json boundaries = Json::array(), pipeline = Json::array();
  const Topology& topology = ranks.front().topology;
  for (int stage = 0; stage < topology.pp_size; ++stage) {
    const ModelPlan& rank = ranks[static_cast<size_t>(stage * topology.tp_size)];
    for (const BoundarySummary& summary : rank.built.stack->summaries()) boundaries.push(boundary_json(summary, rank));
    Json line;
    line.set("stage", stage);
    line.set("layers", range_json(rank.stage.begin, rank.stage.count));
    line.set("ranks", range_json(rank.rank, topology.tp_size));
    if (stage + 1 < topology.pp_size) line.set("hands_over", hand_over_json(rank));
    pipeline.push(std::move(line));
  }
  out.set("stages", std::move(boundaries));
  out.set("pipeline", std::move(pipeline));
}

Result<Json> rank_json(const ModelPlan& rank, const MemoryPlan& memory) {
  LAMINA_ASSIGN(const std::vector<Share> heads, shares_of(rank, ShardRule::kHeads));
  LAMINA_ASSIGN(const std::vector<Share> kv_heads, shares_of(rank, ShardRule::kKvHeads));
  LAMINA_ASSIGN(const std::vector<Share> vocabulary, shares_of(rank, ShardRule::kVocab));
  const Topology& topology = rank.topology;
  Json out, vocab = Json::array(), bytes;
  out.set("rank", rank.rank);
  out.set("stage", topology.pp_rank(rank.rank));
  out.set("tp_rank", topology.tp_rank(rank.rank));
  out.set("dp_rank", topology.dp_rank(rank.rank));
  out.set("attn_tp_rank", topology.attn_tp_rank(rank.rank));
  out.set("layers", range_json(rank.stage.begin, rank.stage.count));
  if (!heads.empty()) out.set("heads", range_json(heads[0].rows.begin / heads[0].unit, heads[0].rows.count / heads[0].unit));
  if (!kv_heads.empty()) {
    const Share& share = kv_heads[0];
    out.set("kv_heads", range_json(share.rows.begin / share.unit, share.rows.count / share.unit));
    out.set("kv_replicas", share.rows.replicas);
  }
  for (const Share& share : vocabulary) {
    Json line;
    line.set("name", share.param->name);
    line.set("rows", range_json(share.rows.begin, share.rows.count));
    line.set("padding", share.rows.local.value - share.rows.count);
    vocab.push(std::move(line));
  }
  out.set("vocabulary", std::move(vocab));
  bytes.set("weights", memory.weight_bytes);
  bytes.set("step", memory.step_bytes);
  bytes.set("stages", 2 * memory.stage_bytes);
  bytes.set("scratch", memory.scratch_bytes);
  bytes.set("exchange", memory.exchange_bytes);
  bytes.set("kv_bytes_per_token", memory.kv_bytes_per_token);
  bytes.set("kv", memory.kv_bytes());
  out.set("memory", std::move(bytes));
  return out;
}

Json kv_json(const Inspection& inspection) {
  const ModelPlan& first = inspection.ranks.front();
  const std::vector<KvLayerShape> shapes = first.built.model->kv_shapes();
  const Topology& topology = first.topology;
  int64_t layers = 0, total = 0;
  for (const ModelPlan& rank : inspection.ranks) {
    const MemoryPlan& memory = inspection.memory[static_cast<size_t>(rank.rank)];
    if (topology.tp_rank(rank.rank) == 0) layers += static_cast<int64_t>(rank.built.model->kv_shapes().size());
    if (topology.dp_rank(rank.rank) == 0) total += memory.kv_bytes_per_token;
  }
  Json out;
  out.set("layers", layers);
  out.set("kv_heads", shapes.empty() ? 0 : shapes.front().kv_heads);
  out.set("k_dim", shapes.empty() ? 0 : shapes.front().k_dim);
  out.set("v_dim", shapes.empty() ? 0 : shapes.front().v_dim);
  out.set("dtype", torch_dtype_name(first.source->kv_dtype));
  out.set("bytes_per_token", inspection.memory.front().kv_bytes_per_token);
  out.set("bytes_per_token_all_ranks", total);
  out.set("pools", topology.dp_attention);
  return out;
}

Json memory_json(const Inspection& inspection) {
  const auto fullest = std::max_element(inspection.memory.begin(), inspection.memory.end(), [](const MemoryPlan& a, const MemoryPlan& b) {
    return a.fixed_bytes() + a.kv_bytes() < b.fixed_bytes() + b.kv_bytes();
  });
  Json out, all;
  size_t weights = 0, arenas = 0, kv = 0;
  for (const MemoryPlan& memory : inspection.memory) {
    weights += memory.weight_bytes, arenas += memory.arena_bytes(), kv += memory.kv_bytes();
  }
  all.set("weights", weights);
  all.set("arenas", arenas);
  all.set("kv", kv);
  out.set("rank", fullest - inspection.memory.begin());
  out.set("weights", fullest->weight_bytes);
  out.set("step", fullest->step_bytes);
  out.set("stages", 2 * fullest->stage_bytes);
  out.set("scratch", fullest->scratch_bytes);
  out.set("exchange", fullest->exchange_bytes);
  out.set("kv_tokens", fullest->kv_tokens());
  out.set("kv", fullest->kv_bytes());
  out.set("largest_context", fullest->largest_context());
  out.set("all_ranks", std::move(all));
  out.set("available", static_cast<int64_t>(inspection.available));
  out.set("available_to", inspection.shared ? "all ranks" : "each rank");
  if (!inspection.fault.empty()) out.set("fault", inspection.fault);
  return out;
}

Result<Json> accounting_json(std::span<const ModelPlan> ranks) {
  LAMINA_ASSIGN(const Accounting sums, account(ranks));
  Json out;
  out.set("checkpoint", amount_json(sums.checkpoint));
  out.set("widening_bytes", sums.widening);
  out.set("replicas", amount_json(sums.replicas));
  out.set("vocabulary_padding", amount_json(sums.vocabulary_padding));
  out.set("packing_bytes", sums.packing);
  out.set("ranks", amount_json(sums.ranks));
  return out;
}

}  // namespace lamina
