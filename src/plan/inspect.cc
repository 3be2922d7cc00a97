#include "plan/inspect.h"

#include <algorithm>

#include "plan/inspect_parts.h"

namespace lamina {
namespace {

Json skipped_json(const AuditReport& report) {
  Json out = Json::array();
  for (const AuditReport::Skipped& skipped : report.skipped) {
    Json line;
    line.set("tensor", skipped.tensor);
    line.set("reason", skipped.reason);
    out.push(std::move(line));
  }
  return out;
}

Json audit_json(const AuditReport& report) {
  Json out;
  out.set("loaded", report.loaded_tensors);
  for (const AuditReport::List& list : report.faults()) {
    Json names = Json::array();
    for (const std::string& tensor : list.tensors) names.push(Json(tensor));
    out.set(list.name, std::move(names));
  }
  return out;
}

void set_title(const std::string& model, const ModelSource& source, Json& out) {
  out.set("model", model);
  out.set("class", source.entry.architecture);
  out.set("layers", source.config.num_hidden_layers);
  out.set("context_length", source.context_length);
  out.set("dtype", torch_dtype_name(source.dtype));
  if (source.quant) out.set("quantization", source.quant->method());
  out.set("tied", source.config.tie_word_embeddings);
  out.set("skipped", skipped_json(source.report));
  out.set("audit", audit_json(source.report));
}

/// Pages out of memory that every rank has for itself: the least number.
Status plan_each(std::span<MemoryPlan> ranks, const MemoryRequest& request) {
  int32_t least = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    LAMINA_TRY(plan_pages(ranks.subspan(r, 1), request));
    least = r == 0 ? ranks[r].pages : std::min(least, ranks[r].pages);
  }
  for (MemoryPlan& rank : ranks) rank.pages = least;
  return {};
}

}  // namespace

Result<Inspection> inspect_ranks(const PlanOptions& options, const std::shared_ptr<const ModelSource>& source, const MemoryRequest& request,
                                 bool shared) {
  Inspection out;
  out.model = folder_name(options.model);
  out.available = request.available;
  out.shared = shared;
  for (int rank = 0; rank < options.topology.world_size(); ++rank) {
    LAMINA_ASSIGN(ParallelGroups groups, ParallelGroups::planned(options.topology, rank));
    LAMINA_ASSIGN(ModelPlan plan, plan_rank(options, source, std::move(groups), rank));
    out.memory.push_back(fixed_memory(plan, request));
    out.ranks.push_back(std::move(plan));
  }
  const Status fits = shared ? plan_pages(out.memory, request) : plan_each(out.memory, request);
  if (fits.ok()) return out;
  out.fault = fits.error().message;
  for (MemoryPlan& memory : out.memory) memory.pages = 0;
  return out;
}

Json topology_json(const Topology& topology) {
  Json out;
  out.set("tp_size", topology.tp_size);
  out.set("pp_size", topology.pp_size);
  out.set("dp_attention", topology.dp_attention);
  out.set("attn_tp", topology.attn_tp());
  out.set("dp_lm_head", topology.dp_lm_head);
  out.set("ranks", topology.world_size());
  return out;
}

Json refused_json(const std::string& model, const ModelSource& source) {
  Json out;
  set_title(model, source, out);
  out.set("refused", source.report.fault());
  return out;
}

Result<Json> inspect_json(const Inspection& inspection) {
  const std::vector<ModelPlan>& ranks = inspection.ranks;
  const ModelSource& source = *ranks.front().source;
  Json out, table = Json::array();
  set_title(inspection.model, source, out);
  out.set("ranks", ranks.size());
  out.set("topology", topology_json(ranks.front().topology));
  LAMINA_TRY(set_parameters(ranks, out));
  set_stages(ranks, out);
  for (size_t r = 0; r < ranks.size(); ++r) {
    LAMINA_ASSIGN(Json line, rank_json(ranks[r], inspection.memory[r]));
    table.push(std::move(line));
  }
  out.set("rank_table", std::move(table));
  out.set("kv", kv_json(inspection));
  out.set("memory", memory_json(inspection));
  LAMINA_ASSIGN(Json accounting, accounting_json(ranks));
  out.set("accounting", std::move(accounting));
  return out;
}

}  // namespace lamina
