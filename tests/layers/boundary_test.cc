#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "layers/activation.h"
#include "layers/boundary/layer_stack.h"
#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::copy;
using layer_test::expect_bits;
using layer_test::Matrix;
using layer_test::normal_matrix;
using layer_test::on_ranks;
using layer_test::Tensors;
using layer_test::TestRank;
using ::testing::HasSubstr;

std::string message(const Status& status) { return status.ok() ? "" : status.error().message; }

// --- declarations --------------------------------------------------------------------------------------------------------------------

TEST(StageDecl, DefaultsAreValid) {
  EXPECT_EQ(message(validate(declare_attn())), "");
  EXPECT_EQ(message(validate(declare_ffn())), "");
  EXPECT_EQ(message(validate(declare_ffn({.reduction = StageReduction::kTailAfterSum, .sparse = true}))), "");
}

TEST(StageDecl, ContradictionsAreErrors) {
  EXPECT_EQ(message(validate(declare_attn({.reduction = StageReduction::kExitScoped}))),
            "an attention stage must be always_partial, not exit_scoped");
  EXPECT_EQ(message(validate(declare_attn({.reduction = StageReduction::kTailAfterSum}))),
            "an attention stage must be always_partial, not tail_after_sum");
  EXPECT_THAT(message(validate(declare_ffn({.reduction = StageReduction::kAlwaysPartial}))),
              HasSubstr("an ffn stage cannot be always_partial"));
  EXPECT_EQ(message(validate(declare_attn({.sparse = true}))), "an attention stage cannot be sparse");
  EXPECT_EQ(message(validate(declare_attn({.next_layer_sparse = true}))), "an attention stage cannot be sparse");
}

TEST(StageDecl, TheFirstFieldThatDiffersIsNamed) {
  const StageDecl ffn = declare_ffn();
  const auto difference = [&](auto change) {
    StageDecl declared = ffn;
    change(declared);
    return first_difference(declared, ffn);
  };
  EXPECT_EQ(first_difference(ffn, ffn), "");
  EXPECT_EQ(difference([](StageDecl& d) { d.kind = StageKind::kAttention; }), "kind is attention, the function says ffn");
  EXPECT_EQ(difference([](StageDecl& d) { d.read = StageRead::kNorm; }), "read is norm, the function says norm_quant");
  EXPECT_EQ(difference([](StageDecl& d) { d.reduction = StageReduction::kTailAfterSum; }),
            "reduction is tail_after_sum, the function says exit_scoped");
  EXPECT_EQ(difference([](StageDecl& d) { d.sparse = true, d.group = "ep"; }), "sparse is true, the function says false");
  EXPECT_EQ(difference([](StageDecl& d) { d.next_layer_sparse = true; }), "next_layer_sparse is true, the function says false");
  EXPECT_EQ(difference([](StageDecl& d) { d.group = "attn_tp"; }), "group is attn_tp, the function says tp");
}

// --- binding -------------------------------------------------------------------------------------------------------------------------

using Declared = std::vector<std::pair<int, std::vector<StageDecl>>>;  // layer, its stages

std::vector<StageDecl> ordinary() { return {declare_attn({.group = "attn_tp"}), declare_ffn()}; }

void open(LayerStack& stack, int64_t layers, LayerStack::StageFacts facts) { stack.open(layers, {0, layers}, std::move(facts)); }

/// Closes a stack of as many layers as `declared` in which every layer should be ordinary.
std::string bind_error(const Declared& declared) {
  const ParallelGroups groups = ParallelGroups::single();
  LayerStack stack(groups);
  open(stack, std::ssize(declared), [](LayerId) { return ordinary(); });
  for (const auto& [layer, stages] : declared) (void)stack.append_stages(LayerId(layer), stages);
  return message(stack.close());
}

/// A closed stack of the layers of one rank out of two layers.
struct Bound {
  Bound(const Topology& topology, int rank, BoundaryOptions options)
      : groups(ParallelGroups::planned(topology, rank).value()), stack(groups, options) {
    const StageLayers stage = stage_layers(2, topology, topology.pp_rank(rank)).value();
    stack.open(2, stage, [](LayerId) { return ordinary(); });
    for (int64_t layer = stage.begin; layer < stage.end(); ++layer) {
      (void)stack.append_stages(LayerId(static_cast<int32_t>(layer)), ordinary());
    }
    EXPECT_EQ(message(stack.close()), "");
  }
  /// What the boundaries do in `variant`.
  std::vector<std::string> lines(BatchVariant variant) const {
    std::vector<std::string> out;
    for (const BoundarySummary& summary : stack.summaries()) {
      for (const BoundarySummary::Variant& v : summary.variants) {
        if (v.variant == variant) out.push_back(cat(summary.stage, ": ", v.words));
      }
    }
    return out;
  }
  std::vector<BatchVariant> variants() const {
    std::vector<BatchVariant> out;
    for (const BoundarySummary::Variant& v : stack.summaries().front().variants) out.push_back(v.variant);
    return out;
  }
  ParallelGroups groups;
  LayerStack stack;
};

constexpr BoundaryOptions kReference{.fused = false};

TEST(LayerStack, OneRankOwesNothing) {
  const Bound bound({}, 0, {});
  EXPECT_EQ(bound.variants(), std::vector<BatchVariant>{BatchVariant::kOrdinary});
  EXPECT_EQ(bound.lines(BatchVariant::kOrdinary),
            (std::vector<std::string>{
                "layer 0 attention: norm of the embedding", "layer 0 ffn: add the output of layer 0 attention, then norm",
                "layer 1 attention: add the output of layer 0 ffn, then norm",
                "layer 1 ffn: add the output of layer 1 attention, then norm", "final norm: add the output of layer 1 ffn, then norm"}));
}

TEST(LayerStack, AReplicatedResidualIsCompletedByAllReduceOverTheProducersGroup) {
  const Bound bound({.tp_size = 4, .dp_attention = 2}, 0, kReference);
  EXPECT_EQ(bound.lines(BatchVariant::kDpRagged),
            (std::vector<std::string>{
                "layer 0 attention: norm of the embedding",
                "layer 0 ffn: all-reduce the output of layer 0 attention over attn_tp (2 ranks), add it, then norm, gather the normed rows "
                "over attn_dp (2 ranks)",
                "layer 1 attention: all-reduce the output of layer 0 ffn over tp (4 ranks), add it, then norm",
                "layer 1 ffn: all-reduce the output of layer 1 attention over attn_tp (2 ranks), add it, then norm, gather the normed rows "
                "over attn_dp (2 ranks)",
                "final norm: all-reduce the output of layer 1 ffn over tp (4 ranks), add it, then norm"}));
}

TEST(LayerStack, AScatteredResidualIsCompletedByReduceScatterAndItsNormGathered) {
  const Bound bound({.tp_size = 2}, 0, kReference);
  EXPECT_EQ(bound.variants(),
            (std::vector<BatchVariant>{BatchVariant::kOrdinary, BatchVariant::kScattered, BatchVariant::kScatteredUneven}));
  EXPECT_EQ(bound.lines(BatchVariant::kScattered),
            (std::vector<std::string>{
                "layer 0 attention: norm of the embedding, gather the normed rows over attn_tp (2 ranks)",
                "layer 0 ffn: reduce-scatter the output of layer 0 attention over attn_tp (2 ranks), add it, then norm, gather the normed "
                "rows over tp (2 ranks)",
                "layer 1 attention: reduce-scatter the output of layer 0 ffn over tp (2 ranks), add it, then norm, gather the normed rows "
                "over attn_tp (2 ranks)",
                "layer 1 ffn: reduce-scatter the output of layer 1 attention over attn_tp (2 ranks), add it, then norm, gather the normed "
                "rows over tp (2 ranks)",
                "final norm: reduce-scatter the output of layer 1 ffn over tp (2 ranks), add it, then norm, gather the normed rows over "
                "attn_tp (2 ranks)"}));
}

TEST(LayerStack, OnePassOverSharedMemoryIsSaid) {
  const Bound bound({.tp_size = 2}, 0, {});
  EXPECT_EQ(bound.lines(BatchVariant::kOrdinary)[1],
            "layer 0 ffn: reduce-scatter the output of layer 0 attention over attn_tp (2 ranks), add it, then norm, gather the residual "
            "over attn_tp (2 ranks), gather the normed rows over tp (2 ranks); in one pass");
}

TEST(LayerStack, ALaterStageBeginsWithWhatTheLayerBeforeItOwes) {
  const Topology topology{.tp_size = 2, .pp_size = 2};
  EXPECT_EQ(Bound(topology, 0, kReference).lines(BatchVariant::kOrdinary).size(), 2U) << "no final norm on the first stage";
  EXPECT_EQ(Bound(topology, 2, kReference).lines(BatchVariant::kOrdinary),
            (std::vector<std::string>{"layer 1 attention: all-reduce the output of layer 0 ffn over tp (2 ranks), add it, then norm",
                                      "layer 1 ffn: all-reduce the output of layer 1 attention over attn_tp (2 ranks), add it, then norm",
                                      "final norm: all-reduce the output of layer 1 ffn over tp (2 ranks), add it, then norm"}));
}

TEST(LayerStack, AttentionOverTheWrongGroupIsRefusedUnderAttentionDp) {
  const ParallelGroups groups = ParallelGroups::planned({.tp_size = 4, .dp_attention = 2}, 0).value();
  const std::vector<StageDecl> stages = {declare_attn({.group = "tp"}), declare_ffn()};
  LayerStack stack(groups);
  open(stack, 1, [&](LayerId) { return stages; });
  (void)stack.append_stages(LayerId(0), stages);
  EXPECT_EQ(
      message(stack.close()),
      "layer 0 attention: its sum over \"tp\" (4 ranks) cannot be completed: wanted \"attn_tp\" (2 ranks, --tp-size / --dp-attention)");
}

TEST(LayerStack, LayersThatOwnTheirResidualAreRefusedWhereRowsOrStagesAreShared) {
  for (const auto& [topology, flag] :
       {std::pair(Topology{.tp_size = 2, .dp_attention = 2}, "--dp-attention 2"), std::pair(Topology{.pp_size = 2}, "--pp-size 2")}) {
    const ParallelGroups groups = ParallelGroups::planned(topology, 0).value();
    LayerStack stack(groups);
    stack.open(2, stage_layers(2, topology, 0).value(), [](LayerId) { return std::vector<StageDecl>(); });
    EXPECT_THAT(message(stack.close()), HasSubstr(flag));
  }
}

TEST(LayerStack, TheVariantFollowsRowsAndOptions) {
  const auto chosen = [](const Topology& topology, BoundaryOptions::Rows rows, int64_t count, bool padded = false) {
    const Bound bound(topology, 0, {.rows = rows});
    ForwardBatch batch;
    batch.positions.resize(static_cast<size_t>(count));
    batch.dp_padded = padded;
    return bound.stack.choose(batch);
  };
  using Rows = BoundaryOptions::Rows;
  EXPECT_EQ(chosen({}, Rows::kAuto, 4), BatchVariant::kOrdinary);
  EXPECT_EQ(chosen({.tp_size = 2}, Rows::kAuto, 4), BatchVariant::kScattered);
  EXPECT_EQ(chosen({.tp_size = 2}, Rows::kScattered, 5), BatchVariant::kScatteredUneven);
  EXPECT_EQ(chosen({.tp_size = 2}, Rows::kReplicated, 4), BatchVariant::kOrdinary);
  EXPECT_EQ(chosen({.tp_size = 2, .dp_attention = 2}, Rows::kAuto, 4, true), BatchVariant::kDpPadded);
  EXPECT_EQ(chosen({.tp_size = 4, .dp_attention = 2}, Rows::kAuto, 4), BatchVariant::kDpRaggedScattered);
  EXPECT_EQ(chosen({.tp_size = 4, .dp_attention = 2}, Rows::kAuto, 4, true), BatchVariant::kDpPaddedScattered);
  EXPECT_EQ(chosen({.tp_size = 4, .dp_attention = 2}, Rows::kReplicated, 4), BatchVariant::kDpRagged);
}

TEST(LayerStack, DifferenceToTheFactsNamesLayerStageAndField) {
  StageDecl sparse = declare_ffn();
  sparse.sparse = true;
  EXPECT_EQ(bind_error({{0, ordinary()}, {1, ordinary()}, {2, {declare_attn({.group = "attn_tp"}), sparse}}}),
            "layer 2 stage 1 (ffn): sparse is true, the function says false");
}

TEST(LayerStack, AContradictionNamesLayerAndStage) {
  EXPECT_THAT(bind_error({{0, {declare_attn({.reduction = StageReduction::kExitScoped}), declare_ffn()}}}),
              HasSubstr("layer 0 stage 0: an attention stage must be always_partial"));
}

TEST(LayerStack, AnotherNumberOfStagesNamesTheLayerAndBothNumbers) {
  EXPECT_EQ(bind_error({{0, ordinary()}, {1, {declare_attn({.group = "attn_tp"})}}}), "layer 1 declares 1 stages, the function says 2");
  EXPECT_EQ(bind_error({{0, ordinary()}, {1, {}}}), "layer 1 declares 0 stages, the function says 2");
}

TEST(LayerStack, LayersOutOfOrderAreNamed) {
  EXPECT_EQ(bind_error({{1, ordinary()}, {0, ordinary()}}), "layer 0 declares stages after those of layer 1");
}

TEST(LayerStack, StagesOfALayerTheModelDoesNotHaveAreAnError) {
  const ParallelGroups groups = ParallelGroups::single();
  LayerStack stack(groups);
  open(stack, 1, [](LayerId) { return ordinary(); });
  (void)stack.append_stages(LayerId(0), ordinary());
  (void)stack.append_stages(LayerId(1), ordinary());
  EXPECT_EQ(message(stack.close()), "layer 1 declares stages, the model has 1 layers");
}

TEST(LayerStack, AGroupThatDoesNotExistIsNamed) {
  const ParallelGroups groups = ParallelGroups::single();
  const std::vector<StageDecl> stages = {declare_attn({.group = "moe_tp"})};
  LayerStack stack(groups);
  open(stack, 1, [&](LayerId) { return stages; });
  (void)stack.append_stages(LayerId(0), stages);
  EXPECT_THAT(message(stack.close()), HasSubstr("\"moe_tp\""));
}

TEST(LayerStack, LayersThatOwnTheirResidualDeclareNoStages) {
  const ParallelGroups groups = ParallelGroups::planned({.tp_size = 4}, 0).value();
  LayerStack stack(groups);
  open(stack, 2, [](LayerId) { return std::vector<StageDecl>(); });
  for (const int layer : {0, 1}) EXPECT_TRUE(stack.append_stages(LayerId(layer), {}).empty());
  EXPECT_EQ(message(stack.close()), "");
  ASSERT_EQ(stack.summaries().size(), 1U);
  EXPECT_EQ(stack.summaries()[0].plan, "norm of the residual");
}

TEST(LayerStackDeathTest, StagesAreAppendedOnlyWhileItIsOpen) {
  const ParallelGroups groups = ParallelGroups::single();
  LayerStack stack(groups);
  EXPECT_DEATH((void)stack.append_stages(LayerId(0), ordinary()), "while the layer stack is open");
  open(stack, 0, [](LayerId) { return ordinary(); });
  ASSERT_TRUE(stack.close().ok());
  EXPECT_DEATH((void)stack.append_stages(LayerId(0), ordinary()), "while the layer stack is open");
}

}  // namespace
}  // namespace lamina
