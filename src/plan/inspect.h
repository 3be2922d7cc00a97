#pragma once
// The plan of one rank in words and JSON, from a config alone: what `lamina inspect` prints.

#include <optional>
#include <string>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "models/causal_lm.h"
#include "plan/memory.h"
#include "weights/loader.h"

namespace lamina {

struct InspectInput {
  const ModelConfig& config;
  const BuiltModel& built;
  const LoadPlan& load;                    // of the checkpoint, or a dummy plan
  const Checkpoint* checkpoint = nullptr;  // null: no files, sources are names only
  const MemoryPlan& memory;
  DType dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
};

/// {"class", "ranks", "parameters": [{"name", "rule", "on_disk", "global", "local", "dtype", "bytes", "sources"}], "parameter_total",
///  "stages", "kv", "memory"}
Result<Json> inspect_json(const InspectInput& input);
/// The same as an indented page: module tree, parameters, boundaries, memory.
std::string inspect_text(const Json& plan);

}  // namespace lamina
