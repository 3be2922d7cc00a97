#pragma once
// The plan of a model on a topology in words and JSON, from a config alone: what `lamina inspect` prints.

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/memory.h"
#include "plan/model_plan.h"

namespace lamina {

/// Every rank of a topology with its memory.
struct Inspection {
  std::string model;               // name of the folder
  std::vector<ModelPlan> ranks;    // in order, planned only
  std::vector<MemoryPlan> memory;  // theirs; no pages when it does not fit
  uint64_t available = 0;          // bytes
  bool shared = true;              // the ranks share `available`; else each has as much
  std::string fault;               // why it does not fit; empty when it does
};

/// Plans all ranks of options.topology and gives them their pages: out of `request.available` together, or each out of as much
/// (`shared` false), the least number for all.
Result<Inspection> inspect_ranks(const PlanOptions& options, const std::shared_ptr<const ModelSource>& source, const MemoryRequest& request,
                                 bool shared);

/// Parameters stand once, in order of the stages; what differs between the ranks of a stage is in `slices`, tables that parameters of equal
/// cut share: one entry a tp rank, each a list of {"source", "rows", "cols", "at"}, counted as the tensor on disk does. Rows, columns,
/// layers and heads are [begin, end).
/// {"model", "class", "ranks", "topology", "layers", "context_length", "dtype", "tied", "parameter_total",
///  "parameters": [{"name", "rule", "group", "on_disk", "global", "local", "dtype", "format", "bytes",
///                  "places": [{"stage", "bytes", "rank_bytes", "slices", ...}], "sources"}],
///      "group": who cuts it, "tp of 2", or null where every rank holds all; "bytes" of a place: on each of its ranks, or on the first
///      where "rank_bytes" lists them
///  "slices", "skipped", "audit",
///  "stages": [{"stage", "plan", "pipeline_stage", "variants": [{"variant", "plan", "wire_bytes_per_row"}]}],   one a layer boundary
///  "pipeline": [{"stage", "layers", "ranks", ...}], "rank_table": [{"rank", "stage", ..., "memory"}],
///  "kv", "memory", "accounting"}
Result<Json> inspect_json(const Inspection& inspection);
/// {"tp_size", "pp_size", "dp_attention", "attn_tp", "dp_lm_head", "ranks"}
Json topology_json(const Topology& topology);
/// A checkpoint that the audit refuses: {"model", "class", "layers", "dtype", "tied", "refused": the error, "skipped",
///  "audit": {"loaded", "mixed", "missing", "unexpected", "mis-shaped", "mistyped", "duplicate"}}, names in lists but for "loaded", a count
Json refused_json(const std::string& model, const ModelSource& source);
/// The plan as an indented page: ranks, module tree with parameters, boundaries, memory.
std::string inspect_text(const Json& plan);
/// The parameters alone, one a line: format, who cuts it, bytes on a rank, source tensors. Of a refused checkpoint what is wrong with it.
std::string weights_text(const Json& plan);

}  // namespace lamina
