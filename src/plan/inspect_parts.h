#pragma once
// The parts of inspect_json; see plan/inspect.h.

#include <map>
#include <span>
#include <string>

#include "base/json.h"
#include "plan/inspect.h"

namespace lamina {

Json shape_json(const std::vector<int64_t>& shape);
/// [begin, begin + count)
Json range_json(int64_t begin, int64_t count);

/// "parameters", "slices" and "parameter_total" of `out`.
Status set_parameters(std::span<const ModelPlan> ranks, Json& out);
/// "stages" and "pipeline".
void set_stages(std::span<const ModelPlan> ranks, Json& out);
/// One entry of "rank_table".
Result<Json> rank_json(const ModelPlan& rank, const MemoryPlan& memory);
Json kv_json(const Inspection& inspection);
Json memory_json(const Inspection& inspection);
Result<Json> accounting_json(std::span<const ModelPlan> ranks);

}  // namespace lamina
