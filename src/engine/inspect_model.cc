#include <algorithm>

#include "base/file.h"
#include "engine/loaded_model.h"
#include "plan/inspect.h"

namespace lamina {

Result<Json> inspect_model(const EngineOptions& options, uint64_t memory_per_rank) {
  LAMINA_TRY(validate(options));
  const Result<std::vector<std::string>> entries = list_folder(options.model);
  const bool has_files = entries.ok() && std::any_of(entries->begin(), entries->end(), [](const std::string& name) {
                           return name.find(".safetensors") != std::string::npos;
                         });
  LAMINA_ASSIGN(const ModelPlan plan, make_model_plan(options, has_files && options.load_format != "dummy"));
  MemoryRequest request = memory_request(options, *plan.source, options.threads > 0 ? options.threads : usable_cpus());
  if (memory_per_rank > 0) request.available = memory_per_rank;
  const Result<MemoryPlan> memory = plan_memory(*plan.built.model, *plan.backend, plan.load.bytes, request);
  return inspect_json(plan, memory.ok() ? *memory : fixed_memory(*plan.built.model, *plan.backend, plan.load.bytes, request));
}

}  // namespace lamina
