#pragma once
// Binding: layers append their stages while the stack is open; closing it checks them against the facts of the architecture and resolves,
// once and for every batch variant, what each boundary does. A forward only indexes the table.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/boundary/residual_stream.h"
#include "layers/boundary/stage.h"

namespace lamina {

/// The edge in front of one stage.
class StageBoundary {
 public:
  /// Reads the stream for this stage: completes what is owed, adds, norms. Starts the stage's memory.
  Activation prepare(ForwardContext& ctx, ResidualStream& stream, const RmsNorm& norm) const;
  /// Leaves the stage's output in the stream, unreduced.
  void finish(ResidualStream& stream, Partial output) const { stream.record(std::move(output)); }

 private:
  friend class LayerStack;
  std::array<BoundaryPlan, kBatchVariants> plans_{};
};

/// One line of `inspect`.
struct BoundarySummary {
  std::string stage;  // "layer 3 attention", "final norm"
  std::string plan;
};

class LayerStack {
 public:
  /// stage_facts(layer): what the layer at a global id declares, for any layer of the model, also those of other pipeline stages.
  using StageFacts = std::function<std::vector<StageDecl>(LayerId)>;

  explicit LayerStack(const ParallelGroups& groups) : groups_(groups) {}

  void open(int64_t num_layers, StageFacts facts);
  /// Appends a layer's stages in order; boundaries stay where they are and have plans once the stack is closed. A layer that owns its
  /// residual appends none.
  std::vector<const StageBoundary*> append_stages(LayerId layer, std::vector<StageDecl> stages);
  /// Binds. A declaration that contradicts itself or the facts is an error that names layer and field.
  Status close();

  /// The edge in front of the final norm.
  const StageBoundary& final_boundary() const { return final_; }
  std::vector<BoundarySummary> summaries() const;

 private:
  struct Stage {
    LayerId layer;
    StageDecl decl;
    std::unique_ptr<StageBoundary> boundary;
  };
  Status check_facts() const;
  Result<BoundaryPlan> plan_after(const Stage* producer) const;

  const ParallelGroups& groups_;
  int64_t num_layers_ = 0;
  StageFacts facts_;
  bool open_ = false;
  std::vector<Stage> stages_;
  StageBoundary final_;
};

}  // namespace lamina
