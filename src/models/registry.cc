#include "models/registry.h"

#include <algorithm>

#include "base/strings.h"
#include "models/llama.h"
#include "models/qwen2.h"
#include "models/qwen3.h"

namespace lamina {
namespace {

constexpr std::span<const ModelEntry> kFamilies[] = {kLlamaEntries, kQwen2Entries, kQwen3Entries};

constexpr bool registered_once() {
  for (size_t f = 0; f < std::size(kFamilies); ++f) {
    for (size_t e = 0; e < kFamilies[f].size(); ++e) {
      int times = 0;
      for (const std::span<const ModelEntry> family : kFamilies) {
        for (const ModelEntry& entry : family) times += entry.architecture == kFamilies[f][e].architecture ? 1 : 0;
      }
      if (times != 1) return false;
    }
  }
  return true;
}
static_assert(registered_once(), "an architecture is registered twice");

}  // namespace

ModelRegistry ModelRegistry::create(std::span<const ModelEntry> external, std::string_view disabled) {
  const std::vector<std::string> hidden = split(disabled, ',');
  ModelRegistry registry;
  const auto add = [&](std::span<const ModelEntry> entries) {
    for (const ModelEntry& entry : entries) {
      const bool taken = registry.find({std::string(entry.architecture)}).ok();
      const bool off = std::find(hidden.begin(), hidden.end(), entry.architecture) != hidden.end();
      if (!taken && !off) registry.entries_.push_back(entry);
    }
  };
  add(external);
  for (const std::span<const ModelEntry> family : kFamilies) add(family);
  return registry;
}

Result<const ModelEntry*> ModelRegistry::find(const std::vector<std::string>& wanted) const {
  for (const std::string& name : wanted) {
    for (const ModelEntry& entry : entries_) {
      if (entry.architecture == name) return &entry;
    }
  }
  return error("architecture ", join(wanted, ", "), " is not supported; supported: ", join(architectures(), ", "));
}

std::vector<std::string> ModelRegistry::architectures() const {
  std::vector<std::string> names;
  for (const ModelEntry& entry : entries_) names.emplace_back(entry.architecture);
  return names;
}

Result<BuiltModel> build_model(const ModelEntry& entry, const ModelConfig& config, const ModelOptions& options,
                               const ParallelGroups& groups, const WeightFormat& format, const StageLayers& stage) {
  LAMINA_ASSIGN(const ParallelGroup* pipeline, groups.find("pp"));
  BuiltModel built;
  built.architecture = entry.architecture;
  built.params = std::make_unique<ParamList>();
  built.rotary = std::make_unique<RotarySet>();
  built.stack = std::make_unique<LayerStack>(groups, options.boundaries);
  BuildContext context(groups, format, *built.params, *built.stack, *built.rotary);
  const bool first = pipeline->rank == 0;
  const bool last = pipeline->rank == pipeline->size - 1;
  built.model = entry.create({config, options, context, stage, first, last});
  LAMINA_TRY(context.status());
  return built;
}

}  // namespace lamina
