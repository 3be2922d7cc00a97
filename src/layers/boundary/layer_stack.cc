#include "layers/boundary/layer_stack.h"

#include "base/strings.h"

namespace lamina {
namespace {

std::string stage_name(LayerId layer, const StageDecl& decl) { return cat("layer ", layer.value, " ", stage_kind_name(decl.kind)); }

const ParallelGroup* several(const ParallelGroup* group) { return group->size > 1 ? group : nullptr; }

uint64_t received(const RowGroups& groups) {
  uint64_t bytes = 0;
  for (const ParallelGroup* group : {groups.tp, groups.attn_tp, groups.attn_dp}) bytes += group->communicator->bytes_received();
  return bytes;
}

}  // namespace

Activation StageBoundary::prepare(ForwardContext& ctx, ResidualStream& stream, const RmsNorm& norm) const {
  const std::optional<BoundaryPlan>& plan = plans_[static_cast<size_t>(ctx.variant)];
  LAMINA_CHECK(plan.has_value(), "a boundary has no plan for this batch variant");
  ctx.memory.next_stage();
  if (ctx.taps == nullptr) return stream.read(ctx, *plan, norm, name_);
  const uint64_t before = received(stream.groups());
  const Activation out = stream.read(ctx, *plan, norm, name_);
  ctx.taps->wire(name_.module, name_.value, received(stream.groups()) - before);
  return out;
}

void StageBoundary::finish(ResidualStream& stream, Partial output) const {
  if (!sums_at_exit_) return stream.record(std::move(output));
  const PartialAccess::Owed owed = PartialAccess::consume(std::move(output));
  if (owed.group->size > 1) owed.group->communicator->all_reduce_sum(owed.values);
  stream.record({owed.values, *owed.group});
}

LayerStack::LayerStack(const ParallelGroups& groups, BoundaryOptions options) : groups_(groups), options_(options) {
  rows_ = {groups.find("tp").value(), groups.find("attn_tp").value(), groups.find("attn_dp").value()};
  pp_ = groups.find("pp").value();
}

void LayerStack::open(int64_t num_layers, StageLayers stage, StageFacts facts) {
  LAMINA_CHECK(!open_ && stages_.empty(), "a layer stack is opened once");
  num_layers_ = num_layers;
  layers_ = stage;
  facts_ = std::move(facts);
  open_ = true;
}

std::vector<const StageBoundary*> LayerStack::append_stages(LayerId layer, std::vector<StageDecl> stages,
                                                            std::vector<const RmsNorm*> norms) {
  LAMINA_CHECK(open_, "stages are appended while the layer stack is open");
  LAMINA_CHECK(norms.empty() || stages.empty() || norms.size() == stages.size(), "a norm a stage");
  std::vector<const StageBoundary*> boundaries;
  for (size_t s = 0; s < stages.size(); ++s) {
    stages_.push_back({layer, stages[s], norms.empty() ? nullptr : norms[s], std::make_unique<StageBoundary>()});
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
  for (int64_t id = layers_.begin; id < layers_.end(); ++id) {
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
  if (next == stages_.size()) return {};
  const int32_t stray = stages_[next].layer.value;
  if (layers_.count == num_layers_) return error("layer ", stray, " declares stages, the model has ", num_layers_, " layers");
  return error("layer ", stray, " declares stages, this pipeline stage has layers ", layers_.begin, " to ", layers_.end() - 1);
}

Result<std::optional<LayerStack::Producer>> LayerStack::producer_of(LayerId layer, const StageDecl& decl) const {
  LAMINA_ASSIGN(const ParallelGroup* group, groups_.find(decl.group));
  const bool local = stage_rows(decl.kind) == StageRows::kLocal;
  const bool fits = group->size == 1 ? !local || rows_.attn_tp->size == 1
                                     : (local ? group->size == rows_.attn_tp->size : group->size == rows_.tp->size) &&
                                           (group == rows_.tp || group == rows_.attn_tp);
  if (!fits) {
    return error(stage_name(layer, decl), ": its sum over \"", decl.group, "\" (", group->size, " ranks) cannot be completed: wanted \"",
                 local ? "attn_tp" : "tp", "\" (", local ? rows_.attn_tp->size : rows_.tp->size, " ranks, ",
                 local ? rows_.attn_tp->size_flag : rows_.tp->size_flag, ")");
  }
  return std::optional(Producer{stage_name(layer, decl), decl, group});
}

/// The last stage of the layer before this pipeline stage.
Result<std::optional<LayerStack::Producer>> LayerStack::stage_before() const {
  if (layers_.begin == 0) return std::optional<Producer>();
  const LayerId layer(static_cast<int32_t>(layers_.begin - 1));
  const std::vector<StageDecl> stages = facts_(layer);
  if (stages.empty()) return error("layer ", layer.value, " owns its residual, which --pp-size ", pp_->size, " cannot hand on");
  return producer_of(layer, stages.back());
}

bool LayerStack::has(BatchVariant variant) const {
  const bool dp = rows_.attn_dp->size > 1;
  const bool of_dp = variant != BatchVariant::kOrdinary && variant != BatchVariant::kScattered && variant != BatchVariant::kScatteredUneven;
  return dp == of_dp && (!is_scattered(variant) || (rows_.attn_tp->size > 1 && !stages_.empty()));
}

BoundaryPlan LayerStack::plan(const std::optional<Producer>& producer, StageRows wanted, bool scattered) const {
  BoundaryPlan plan;
  plan.wanted = wanted;
  bool owed = false;
  if (producer) {
    plan.sum = producer->group;
    plan.produced = stage_rows(producer->decl.kind);
    owed = plan.sum->size > 1 && producer->decl.reduction != StageReduction::kTailAfterSum;
  }
  const ParallelGroup* readers = several(wanted == StageRows::kFull ? rows_.tp : rows_.attn_tp);
  if (scattered) {
    if (owed) plan.completion = Completion::kReduceScatter;
    plan.gather = readers;
  } else {
    if (owed) plan.completion = Completion::kAllReduce;
    if (wanted == StageRows::kFull) plan.gather = several(rows_.attn_dp);
    plan.gather_groups = rows_.attn_tp->size;
  }
  const Communicator* tp = rows_.tp->communicator;  // null when only planned: ranks are then taken for threads
  plan.fused = options_.fused && rows_.tp->size > 1 && (tp == nullptr || tp->shares_memory()) && (owed || plan.gather != nullptr);
  if (plan.fused && !scattered) {
    // Each rank completes its share of the rows for all.
    if (owed) plan.completion = Completion::kReduceScatter;
    if (producer) plan.spread = several(rows_.attn_tp);
    plan.gather = readers;
  }
  if (plan.fused || scattered) plan.gather_groups = 1;
  return plan;
}

BoundaryPlans LayerStack::plans(const std::optional<Producer>& producer, StageRows wanted) const {
  BoundaryPlans out;
  for (int v = 0; v < kBatchVariants; ++v) {
    const auto variant = static_cast<BatchVariant>(v);
    if (has(variant)) out[static_cast<size_t>(v)] = plan(producer, wanted, is_scattered(variant));
  }
  return out;
}

Status LayerStack::close() {
  LAMINA_CHECK(open_, "a layer stack is closed once");
  open_ = false;
  LAMINA_TRY(check_facts());
  if (stages_.empty() && layers_.count > 0) {
    if (rows_.attn_dp->size > 1) return error("layers that own their residual have no place for --dp-attention ", rows_.attn_dp->size);
    if (pp_->size > 1) return error("layers that own their residual have no place for --pp-size ", pp_->size);
  }
  std::optional<Producer> producer;
  if (!stages_.empty()) {
    LAMINA_ASSIGN(producer, stage_before());
  }
  if (producer) owed_over_ = producer->group;
  const auto bind = [&](StageBoundary& boundary, std::string stage, BoundaryName name, StageRows wanted) {
    boundary.name_ = std::move(name);
    boundary.plans_ = plans(producer, wanted);
    summaries_.push_back(summary(std::move(stage), producer, boundary));
  };
  for (Stage& stage : stages_) {
    bind(*stage.boundary, stage_name(stage.layer, stage.decl),
         {cat("model.layers.", stage.layer.value), cat(stage_kind_name(stage.decl.kind), "_boundary")}, stage_rows(stage.decl.kind));
    summaries_.back().norm = stage.norm;
    stage.boundary->sums_at_exit_ = stage.decl.reduction == StageReduction::kTailAfterSum;
    LAMINA_ASSIGN(producer, producer_of(stage.layer, stage.decl));
  }
  if (layers_.end() == num_layers_) bind(final_, "final norm", {"model.norm", "boundary"}, StageRows::kLocal);
  return {};
}

BatchVariant LayerStack::choose(const ForwardBatch& batch) const {
  const bool scattered = options_.rows != BoundaryOptions::Rows::kReplicated &&
                         has(rows_.attn_dp->size > 1 ? BatchVariant::kDpRaggedScattered : BatchVariant::kScattered);
  if (rows_.attn_dp->size > 1) {
    if (batch.dp_padded) return scattered ? BatchVariant::kDpPaddedScattered : BatchVariant::kDpPadded;
    return scattered ? BatchVariant::kDpRaggedScattered : BatchVariant::kDpRagged;
  }
  if (!scattered) return BatchVariant::kOrdinary;
  const bool even = batch.rows() == row_share(batch.rows(), rows_.attn_tp->size, 0).count * rows_.attn_tp->size;
  return even ? BatchVariant::kScattered : BatchVariant::kScatteredUneven;
}

BoundarySummary LayerStack::summary(std::string stage, const std::optional<Producer>& producer, const StageBoundary& boundary) const {
  BoundarySummary out{.stage = std::move(stage), .norm = nullptr, .plan = {}, .variants = {}};
  for (int v = 0; v < kBatchVariants; ++v) {
    const std::optional<BoundaryPlan>& plan = boundary.plans_[static_cast<size_t>(v)];
    if (!plan) continue;
    std::string words = stages_.empty() ? "norm of the residual" : describe(*plan, producer ? producer->name : "");
    out.variants.push_back({static_cast<BatchVariant>(v), *plan, std::move(words)});
  }
  const bool scatters = options_.rows != BoundaryOptions::Rows::kReplicated;
  for (const BoundarySummary::Variant& variant : out.variants) {
    if (out.plan.empty() || is_scattered(variant.variant) == scatters) out.plan = variant.words;
  }
  return out;
}

}  // namespace lamina
