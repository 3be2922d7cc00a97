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
  LAMINA_ASSIGN(const std::shared_ptr<const ModelSource> source, audit_model_source(options, has_files && options.load_format != "dummy"));
  if (!source->report.clean()) return refused_json(folder_name(options.model), *source);
  const int threads = options.threads > 0 ? options.threads : usable_cpus();
  MemoryRequest request = memory_request(options, *source, std::max(1, threads / options.topology.world_size()));
  if (memory_per_rank > 0) request.available = memory_per_rank;
  LAMINA_ASSIGN(const Inspection inspection, inspect_ranks(options, source, request, memory_per_rank == 0));
  return inspect_json(inspection);
}

}  // namespace lamina
