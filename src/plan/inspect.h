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
///  "parameters": [{"name", "rule", "on_disk", "global", "local", "dtype", "bytes", "places": [{"stage", "slices", ...}], "sources"}],
///  "slices", "skipped",
///  "stages": [{"stage", "plan", "pipeline_stage", "variants": [{"variant", "plan", "wire_bytes_per_row"}]}],   one a layer boundary
///  "pipeline": [{"stage", "layers", "ranks", ...}], "rank_table": [{"rank", "stage", ..., "memory"}],
///  "kv", "memory", "accounting"}
Result<Json> inspect_json(const Inspection& inspection);
/// The same as an indented page: ranks, module tree with parameters, boundaries, memory.
std::string inspect_text(const Json& plan);

}  // namespace lamina
