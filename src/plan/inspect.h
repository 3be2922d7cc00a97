#pragma once
// The plan of one rank in words and JSON, from a config alone: what `lamina inspect` prints.

#include <string>

#include "base/json.h"
#include "plan/memory.h"
#include "plan/model_plan.h"

namespace lamina {

/// {"class", "ranks", "parameters": [{"name", "rule", "on_disk", "global", "local", "dtype", "bytes", "sources"}], "parameter_total",
///  "stages", "kv", "memory"}
Result<Json> inspect_json(const ModelPlan& plan, const MemoryPlan& memory);
/// The same as an indented page: module tree, parameters, boundaries, memory.
std::string inspect_text(const Json& plan);

}  // namespace lamina
