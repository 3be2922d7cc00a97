#include "layers/boundary/layer_stack.h"

#include "base/strings.h"

namespace lamina {
namespace {

std::string stage_name(LayerId layer, const StageDecl& decl) { return cat("layer ", layer.value, " ", stage_kind_name(decl.kind)); }

}  // namespace

Activation StageBoundary::prepare(ForwardContext& ctx, ResidualStream& stream, const RmsNorm& norm) const {
  ctx.memory.next_stage();
  return stream.read(ctx, plans_[static_cast<size_t>(ctx.variant)], norm);
}

void LayerStack::open(int64_t num_layers, StageFacts facts) {
  LAMINA_CHECK(!open_ && stages_.empty(), "a layer stack is opened once");
  num_layers_ = num_layers;
  facts_ = std::move(facts);
  open_ = true;
}

std::vector<const StageBoundary*> LayerStack::append_stages(LayerId layer, std::vector<StageDecl> stages) {
  LAMINA_CHECK(open_, "stages are appended while the layer stack is open");
  std::vector<const StageBoundary*> boundaries;
  for (const StageDecl& decl : stages) {
    stages_.push_back({layer, decl, std::make_unique<StageBoundary>()});
    boundaries.push_back(stages_.back().boundary.get());
  }
  return boundaries;
}

Status LayerStack::check_facts() const {
  for (size_t s = 1; s < stages_.size(); ++s) {
    const auto [before, after] = std::pair(stages_[s - 1].layer, stages_[s].layer);
    if (after < before) return error("layer ", after.value, " declares stages after those of layer ", before.value);
  }
  size_t next = 0;
  for (int64_t id = 0; id < num_layers_; ++id) {
    const LayerId layer(static_cast<int32_t>(id));
    const std::vector<StageDecl> expected = facts_(layer);
    std::vector<StageDecl> declared;
    for (; next < stages_.size() && stages_[next].layer == layer; ++next) declared.push_back(stages_[next].decl);
    if (declared.size() != expected.size()) {
      return error("layer ", id, " declares ", declared.size(), " stages, the function says ", expected.size());
    }
    for (size_t s = 0; s < declared.size(); ++s) {
      if (Status valid = validate(declared[s]); !valid.ok()) return error("layer ", id, " stage ", s, ": ", valid.error().message);
      const std::string difference = first_difference(declared[s], expected[s]);
      if (!difference.empty()) return error("layer ", id, " stage ", s, " (", stage_kind_name(declared[s].kind), "): ", difference);
    }
  }
  if (next != stages_.size()) return error("layer ", stages_[next].layer.value, " declares stages, the model has ", num_layers_, " layers");
  return {};
}

Result<BoundaryPlan> LayerStack::plan_after(const Stage* producer) const {
  BoundaryPlan plan;
  if (producer == nullptr) return plan;
  LAMINA_ASSIGN(const ParallelGroup* group, groups_.find(producer->decl.group));
  if (group->size > 1) plan.completion = Completion::kAllReduce;
  return plan;
}

Status LayerStack::close() {
  LAMINA_CHECK(open_, "a layer stack is closed once");
  open_ = false;
  LAMINA_TRY(check_facts());
  const Stage* producer = nullptr;
  for (Stage& stage : stages_) {
    LAMINA_ASSIGN(const BoundaryPlan plan, plan_after(producer));
    stage.boundary->plans_.fill(plan);
    producer = &stage;
  }
  LAMINA_ASSIGN(const BoundaryPlan last, plan_after(producer));
  final_.plans_.fill(last);
  return {};
}

std::vector<BoundarySummary> LayerStack::summaries() const {
  if (stages_.empty()) return {{"final norm", "norm of the residual"}};  // the layers own it
  std::vector<BoundarySummary> out;
  const Stage* producer = nullptr;
  const auto line = [&](std::string stage, const StageBoundary& boundary) {
    const BoundaryPlan& plan = boundary.plans_[0];
    if (producer == nullptr) return out.push_back({std::move(stage), describe(plan, "", "", 1)});
    const Result<const ParallelGroup*> group = groups_.find(producer->decl.group);
    out.push_back({std::move(stage),
                   describe(plan, stage_name(producer->layer, producer->decl), producer->decl.group, group.ok() ? (*group)->size : 1)});
  };
  for (const Stage& stage : stages_) {
    line(stage_name(stage.layer, stage.decl), *stage.boundary);
    producer = &stage;
  }
  line("final norm", final_);
  return out;
}

}  // namespace lamina
