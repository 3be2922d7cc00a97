#pragma once
// Architecture name -> model class.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/causal_lm.h"

namespace lamina {

/// The families' entries in one list; external entries come first.
class ModelRegistry {
 public:
  /// Built-in entries without those named in `disabled` (comma-separated, as LAMINA_DISABLED_ARCHS). `external` entries come first and
  /// replace built-in ones of the same name.
  static ModelRegistry create(std::span<const ModelEntry> external, std::string_view disabled);

  /// The first of `architectures` that is registered; the error lists what is supported.
  Result<const ModelEntry*> find(const std::vector<std::string>& architectures) const;
  std::vector<std::string> architectures() const;

 private:
  std::vector<ModelEntry> entries_;
};

/// Empty shells of the right shape for one rank: parameters declared, boundaries bound, no weights. `stage`: the layers of the rank's
/// pipeline stage, whose place among the stages group "pp" tells.
Result<BuiltModel> build_model(const ModelEntry& entry, const ModelConfig& config, const ModelOptions& options,
                               const ParallelGroups& groups, const WeightFormat& format, const StageLayers& stage);

}  // namespace lamina
