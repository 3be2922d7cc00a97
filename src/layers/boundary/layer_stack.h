#pragma once
// Binding: layers append their stages while the stack is open; closing it checks them against the facts of the architecture and resolves,
// once and for every batch variant, what each boundary does. A forward only indexes the table.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/boundary/residual_stream.h"
#include "layers/boundary/stage.h"

namespace lamina {

/// --boundary-plan and --boundary-rows; no choice changes a bit.
struct BoundaryOptions {
  enum class Rows { kAuto, kReplicated, kScattered };
  bool fused = true;        // a boundary in one pass where ranks share memory, a quantised input written as codes by who makes it
  Rows rows = Rows::kAuto;  // where the residual lies; kAuto: scattered (docs/BENCHMARKS.md has the measurement)
};

using BoundaryPlans = std::array<std::optional<BoundaryPlan>, kBatchVariants>;

/// The edge in front of one stage, and the exit of that stage.
class StageBoundary {
 public:
  /// Reads the stream for this stage: completes what is owed, adds, norms. Starts the stage's memory. A variant that the topology does not
  /// have is a CHECK.
  Activation prepare(ForwardContext& ctx, ResidualStream& stream, const RmsNorm& norm) const;
  /// Leaves the stage's output in the stream: unreduced, or complete when the stage may not defer its sum.
  void finish(ResidualStream& stream, Partial output) const;

 private:
  friend class LayerStack;
  BoundaryName name_;
  BoundaryPlans plans_;
  bool sums_at_exit_ = false;
};

/// One line of `inspect`.
struct BoundarySummary {
  struct Variant {
    BatchVariant variant;
    BoundaryPlan plan;
    std::string words;
  };
  std::string stage;              // "layer 3 attention", "final norm"
  const RmsNorm* norm = nullptr;  // what the stage reads; null: the final norm's f32 rows
  std::string plan;               // of the variant that most steps take, in words
  std::vector<Variant> variants;
};

class LayerStack {
 public:
  /// stage_facts(layer): what the layer at a global id declares, for any layer of the model, also those of other pipeline stages.
  using StageFacts = std::function<std::vector<StageDecl>(LayerId)>;

  explicit LayerStack(const ParallelGroups& groups, BoundaryOptions options = {});

  /// `stage`: the layers that this rank holds of the model's `num_layers`.
  void open(int64_t num_layers, StageLayers stage, StageFacts facts);
  /// Appends a layer's stages in order; boundaries stay where they are and have plans once the stack is closed. A layer that owns its
  /// residual appends none. `norms`, one a stage or none: for the summaries.
  std::vector<const StageBoundary*> append_stages(LayerId layer, std::vector<StageDecl> stages, std::vector<const RmsNorm*> norms = {});
  /// Binds. A declaration that contradicts itself, the facts or the topology is an error that names layer and field.
  Status close();

  bool fuses() const { return options_.fused; }
  /// The variant of a step: by its rows, the same on every rank of the stage.
  BatchVariant choose(const ForwardBatch& batch) const;
  /// The stream of a forward on the first stage: `full` is the complete embedding of all full rows.
  ResidualStream start(ForwardContext& ctx, F32View full) const { return {ctx, rows_, full}; }
  /// On a later stage: received from the one before.
  ResidualStream receive(ForwardContext& ctx, int64_t width) const { return {ctx, rows_, width, *pp_, *owed_over_}; }
  /// To the next stage.
  void hand_over(ResidualStream& stream) const { stream.hand_over(*pp_); }

  /// The edge in front of the final norm.
  const StageBoundary& final_boundary() const { return final_; }
  const std::vector<BoundarySummary>& summaries() const { return summaries_; }

 private:
  struct Stage {
    LayerId layer;
    StageDecl decl;
    const RmsNorm* norm;
    std::unique_ptr<StageBoundary> boundary;
  };
  /// What leaves its output in front of a boundary.
  struct Producer {
    std::string name;  // "layer 3 attention"
    StageDecl decl;
    const ParallelGroup* group;
  };
  Status check_facts() const;
  Result<std::optional<Producer>> producer_of(LayerId layer, const StageDecl& decl) const;
  Result<std::optional<Producer>> stage_before() const;
  BoundaryPlan plan(const std::optional<Producer>& producer, StageRows wanted, bool scattered) const;
  BoundaryPlans plans(const std::optional<Producer>& producer, StageRows wanted) const;
  BoundarySummary summary(std::string stage, const std::optional<Producer>& producer, const StageBoundary& boundary) const;
  bool has(BatchVariant variant) const;

  const ParallelGroups& groups_;
  BoundaryOptions options_;
  RowGroups rows_;
  const ParallelGroup* pp_;
  const ParallelGroup* owed_over_ = nullptr;
  int64_t num_layers_ = 0;
  StageLayers layers_;
  StageFacts facts_;
  bool open_ = false;
  std::vector<Stage> stages_;
  StageBoundary final_;
  std::vector<BoundarySummary> summaries_;
};

}  // namespace lamina
