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

std::vector<StageDecl> ordinary() { return {declare_attn(), declare_ffn()}; }

/// Closes a stack of as many layers as `declared` in which every layer should be ordinary.
std::string bind_error(const Declared& declared) {
  const ParallelGroups groups = ParallelGroups::single();
  LayerStack stack(groups);
  stack.open(static_cast<int64_t>(declared.size()), [](LayerId) { return ordinary(); });
  for (const auto& [layer, stages] : declared) (void)stack.append_stages(LayerId(layer), stages);
  return message(stack.close());
}

std::vector<std::string> summary_lines(const LayerStack& stack) {
  std::vector<std::string> out;
  for (const BoundarySummary& summary : stack.summaries()) out.push_back(cat(summary.stage, ": ", summary.plan));
  return out;
}

/// The summary of a closed stack of two layers whose attention runs over attn_tp.
std::vector<std::string> bound(const Topology& topology) {
  const ParallelGroups groups = ParallelGroups::planned(topology, 0).value();
  const std::vector<StageDecl> stages = {declare_attn({.group = "attn_tp"}), declare_ffn()};
  LayerStack stack(groups);
  stack.open(2, [&](LayerId) { return stages; });
  for (const int layer : {0, 1}) EXPECT_EQ(stack.append_stages(LayerId(layer), stages).size(), 2U);
  EXPECT_EQ(message(stack.close()), "");
  return summary_lines(stack);
}

TEST(LayerStack, OneRankOwesNothing) {
  EXPECT_EQ(bound({}),
            (std::vector<std::string>{
                "layer 0 attention: norm of the embedding", "layer 0 ffn: add the output of layer 0 attention, then norm",
                "layer 1 attention: add the output of layer 0 ffn, then norm",
                "layer 1 ffn: add the output of layer 1 attention, then norm", "final norm: add the output of layer 1 ffn, then norm"}));
}

TEST(LayerStack, SeveralRanksOweAnAllReduceOverTheProducersGroup) {
  EXPECT_EQ(bound({.tp_size = 4, .dp_attention = 2}),
            (std::vector<std::string>{"layer 0 attention: norm of the embedding",
                                      "layer 0 ffn: all-reduce the output of layer 0 attention over attn_tp (2 ranks), add it, then norm",
                                      "layer 1 attention: all-reduce the output of layer 0 ffn over tp (4 ranks), add it, then norm",
                                      "layer 1 ffn: all-reduce the output of layer 1 attention over attn_tp (2 ranks), add it, then norm",
                                      "final norm: all-reduce the output of layer 1 ffn over tp (4 ranks), add it, then norm"}));
  EXPECT_EQ(bound({.tp_size = 4, .dp_attention = 4})[1], "layer 0 ffn: add the output of layer 0 attention, then norm");
}

TEST(LayerStack, DifferenceToTheFactsNamesLayerStageAndField) {
  StageDecl sparse = declare_ffn();
  sparse.sparse = true;
  EXPECT_EQ(bind_error({{0, ordinary()}, {1, ordinary()}, {2, {declare_attn(), sparse}}}),
            "layer 2 stage 1 (ffn): sparse is true, the function says false");
}

TEST(LayerStack, AContradictionNamesLayerAndStage) {
  EXPECT_THAT(bind_error({{0, {declare_attn({.reduction = StageReduction::kExitScoped}), declare_ffn()}}}),
              HasSubstr("layer 0 stage 0: an attention stage must be always_partial"));
}

TEST(LayerStack, AnotherNumberOfStagesNamesTheLayerAndBothNumbers) {
  EXPECT_EQ(bind_error({{0, ordinary()}, {1, {declare_attn()}}}), "layer 1 declares 1 stages, the function says 2");
  EXPECT_EQ(bind_error({{0, ordinary()}, {1, {}}}), "layer 1 declares 0 stages, the function says 2");
}

TEST(LayerStack, LayersOutOfOrderAreNamed) {
  EXPECT_EQ(bind_error({{1, ordinary()}, {0, ordinary()}}), "layer 0 declares stages after those of layer 1");
}

TEST(LayerStack, StagesOfALayerTheModelDoesNotHaveAreAnError) {
  const ParallelGroups groups = ParallelGroups::single();
  LayerStack stack(groups);
  stack.open(1, [](LayerId) { return ordinary(); });
  (void)stack.append_stages(LayerId(0), ordinary());
  (void)stack.append_stages(LayerId(1), ordinary());
  EXPECT_EQ(message(stack.close()), "layer 1 declares stages, the model has 1 layers");
}

TEST(LayerStack, AGroupThatDoesNotExistIsNamed) {
  const ParallelGroups groups = ParallelGroups::single();
  const std::vector<StageDecl> stages = {declare_attn({.group = "moe_tp"})};
  LayerStack stack(groups);
  stack.open(1, [&](LayerId) { return stages; });
  (void)stack.append_stages(LayerId(0), stages);
  EXPECT_THAT(message(stack.close()), HasSubstr("\"moe_tp\""));
}

TEST(LayerStack, LayersThatOwnTheirResidualDeclareNoStages) {
  const ParallelGroups groups = ParallelGroups::planned({.tp_size = 4}, 0).value();
  LayerStack stack(groups);
  stack.open(2, [](LayerId) { return std::vector<StageDecl>(); });
  for (const int layer : {0, 1}) EXPECT_TRUE(stack.append_stages(LayerId(layer), {}).empty());
  EXPECT_EQ(message(stack.close()), "");
  EXPECT_EQ(summary_lines(stack), std::vector<std::string>{"final norm: norm of the residual"});
}

TEST(LayerStackDeathTest, StagesAreAppendedOnlyWhileItIsOpen) {
  const ParallelGroups groups = ParallelGroups::single();
  LayerStack stack(groups);
  EXPECT_DEATH((void)stack.append_stages(LayerId(0), ordinary()), "while the layer stack is open");
  stack.open(0, [](LayerId) { return ordinary(); });
  ASSERT_TRUE(stack.close().ok());
  EXPECT_DEATH((void)stack.append_stages(LayerId(0), ordinary()), "while the layer stack is open");
}

// --- a toy model of two layers over ranks ------------------------------------------------------------------------------------------------

constexpr int64_t kRows = 13, kHidden = 48, kInner = 96;

/// A decoder layer whose attention is a mere matrix.
class ToyLayer {
 public:
  ToyLayer(BuildContext& build, LayerId id, bool stage_boundaries)
      : prefix_(cat("layers.", id.value)),
        boundaries_(build.stack().append_stages(id, stage_boundaries ? ordinary() : std::vector<StageDecl>())),
        qkv_proj_(build, {.name = prefix_ + ".qkv_proj", .in_features = kHidden, .out_features = kInner}),
        o_proj_(build, {.name = prefix_ + ".o_proj", .in_features = kInner, .out_features = kHidden, .bias = true}),
        gate_up_proj_(build, {.name = prefix_ + ".gate_up_proj", .in_features = kHidden}, {{"gate_proj", kInner}, {"up_proj", kInner}}),
        down_proj_(build, {.name = prefix_ + ".down_proj", .in_features = kInner, .out_features = kHidden}),
        norm1_(build, prefix_ + ".norm1", kHidden, 1e-6),
        norm2_(build, prefix_ + ".norm2", kHidden, 1e-6) {
    norm1_.feeds(qkv_proj_);
    norm2_.feeds(gate_up_proj_);
  }

  void forward(ForwardContext& ctx, ResidualStream& stream) const {
    if (boundaries_.empty()) return forward_owning(ctx, stream.owned());
    boundaries_[0]->finish(stream, attention(ctx, boundaries_[0]->prepare(ctx, stream, norm1_)));
    boundaries_[1]->finish(stream, mlp(ctx, boundaries_[1]->prepare(ctx, stream, norm2_)));
  }

 private:
  Partial attention(ForwardContext& ctx, const Activation& x) const {
    return o_proj_.forward(ctx, ConstF32View(qkv_proj_.forward(ctx, x)));
  }
  Partial mlp(ForwardContext& ctx, const Activation& x) const {
    return down_proj_.forward(ctx, silu_and_mul(ctx, gate_up_proj_.forward(ctx, x), down_proj_));
  }
  void forward_owning(ForwardContext& ctx, F32View residual) const {
    ctx.memory.next_stage();
    ctx.compute.kernels->add_rows(residual, PartialAccess::reduce(attention(ctx, norm1_.forward(ctx, residual))));
    ctx.memory.next_stage();
    ctx.compute.kernels->add_rows(residual, PartialAccess::reduce(mlp(ctx, norm2_.forward(ctx, residual))));
  }

  std::string prefix_;
  std::vector<const StageBoundary*> boundaries_;
  ColumnParallelLinear qkv_proj_;
  RowParallelLinear o_proj_;
  MergedColumnParallelLinear gate_up_proj_;
  RowParallelLinear down_proj_;
  RmsNorm norm1_, norm2_;
};

Tensors toy_tensors() {
  Tensors out = {{"norm.weight", normal_matrix(kHidden, 1, 100)}};
  uint32_t seed = 101;
  for (const int layer : {0, 1}) {
    const auto add = [&](const char* name, int64_t rows, int64_t cols) {
      out[cat("layers.", layer, ".", name)] = normal_matrix(rows, cols, seed++, 0.2F);
    };
    for (const char* name : {"qkv_proj.weight", "gate_proj.weight", "up_proj.weight"}) add(name, kInner, kHidden);
    for (const char* name : {"o_proj.weight", "down_proj.weight"}) add(name, kHidden, kInner);
    for (const char* name : {"norm1.weight", "norm2.weight", "o_proj.bias"}) add(name, kHidden, 1);
  }
  return out;
}

/// What each rank has after the final norm.
std::vector<Matrix> run_toy(int ranks, bool stage_boundaries, DType dtype = DType::kF32) {
  const Tensors tensors = toy_tensors();
  const Matrix embedding = normal_matrix(kRows, kHidden, 99);
  std::vector<Matrix> out(static_cast<size_t>(ranks));
  on_ranks(ranks, dtype, [&](TestRank& rank) {
    rank.stack.open(2, [&](LayerId) { return stage_boundaries ? ordinary() : std::vector<StageDecl>(); });
    const ToyLayer first(rank.build, LayerId(0), stage_boundaries), second(rank.build, LayerId(1), stage_boundaries);
    const RmsNorm norm(rank.build, "norm", kHidden, 1e-6);
    ASSERT_EQ(message(rank.stack.close()), "");
    rank.load(tensors);
    Matrix residual = embedding;
    ResidualStream stream(residual.view());
    first.forward(rank.ctx, stream);
    second.forward(rank.ctx, stream);
    out[static_cast<size_t>(rank.index())] = copy(rank.stack.final_boundary().prepare(rank.ctx, stream, norm));
  });
  return out;
}

TEST(ToyStack, SeveralRanksGiveTheResultOfOneWithinF32Rounding) {
  const Matrix alone = run_toy(1, true).front();
  const auto [low, high] = std::minmax_element(alone.values.begin(), alone.values.end());
  ASSERT_GT(*high - *low, 1.0F) << "the data is constant";
  // Four stages, each with sums of up to kInner terms that are added in another order.
  const double bound = std::ldexp(std::max(-*low, *high), -24) * 4 * kInner;
  for (const int ranks : {2, 4}) {
    const Matrix split = run_toy(ranks, true).front();
    for (size_t i = 0; i < alone.values.size(); ++i)
      ASSERT_NEAR(split.values[i], alone.values[i], bound) << ranks << " ranks, element " << i;
  }
}

TEST(ToyStack, EveryRankAndEveryRunHasTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Matrix> once = run_toy(2, true, dtype), again = run_toy(2, true, dtype);
    for (const Matrix& other : {once[1], again[0], again[1]}) expect_bits(other, once[0]);
  }
}

TEST(ToyStack, LayersThatOwnTheirResidualHaveTheBitsOfBoundaries) {
  for (const int ranks : {1, 2}) {
    expect_bits(run_toy(ranks, false).front(), run_toy(ranks, true).front());
    expect_bits(run_toy(ranks, false, DType::kBF16).front(), run_toy(ranks, true, DType::kBF16).front());
  }
}

}  // namespace
}  // namespace lamina
