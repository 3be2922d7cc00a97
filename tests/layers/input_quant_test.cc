#include "layers/input_quant.h"

#include <gtest/gtest.h>

#include "layers/activation.h"
#include "layers/norm.h"
#include "tests/layers/coded_format.h"

namespace lamina {
namespace {

using layer_test::CodedInputs;
using layer_test::expect_bits;
using layer_test::make_coded_format;
using layer_test::Matrix;
using layer_test::normal_matrix;
using layer_test::RankOptions;
using layer_test::TestRank;
using layer_test::values_of;

constexpr int64_t kRows = 11, kWidth = 70;

const std::vector<CodedInputs>& all_inputs() {
  static const std::vector<CodedInputs> all = {
      {.codes = DType::kU8, .scale = 0.02F}, {.codes = DType::kBF16, .scale = 0.01F}, {.codes = DType::kU8}, {.codes = DType::kBF16}};
  return all;
}

RankOptions options(const CodedInputs& inputs, bool fused = true) {
  RankOptions out(DType::kF32, {.fused = fused});
  out.make_format = [inputs] { return make_coded_format(inputs); };
  return out;
}

/// A norm and the layer it feeds.
struct Fed {
  explicit Fed(const RankOptions& options) : rank(ParallelGroups::single(), options) {
    rank.load({{"norm.weight", normal_matrix(kWidth, 1, 1)}, {"fc.weight", normal_matrix(8, kWidth, 2)}});
    norm.feeds(consumer);
  }
  TestRank rank;
  RmsNorm norm{rank.build, "norm", kWidth, 1e-5};
  RowParallelLinear consumer{rank.build, {.name = "fc", .in_features = kWidth, .out_features = 8}};
  Matrix x = normal_matrix(kRows, kWidth, 3, 2.5F);
};

TEST(InputQuant, ANormWritesTheCodesOfItsF32Rows) {
  for (const CodedInputs& inputs : all_inputs()) {
    Fed fused(options(inputs)), unfused(options(inputs, false));
    const Activation plain = unfused.norm.forward(unfused.rank.ctx, unfused.x.view());
    ASSERT_EQ(plain.dtype, DType::kF32);
    const Activation codes = fused.norm.forward(fused.rank.ctx, fused.x.view());
    EXPECT_LE(fused.rank.ctx.arena().mark(), fused.norm.stage_bytes(kRows, 1));
    ASSERT_EQ(codes.is_coded(), inputs.scale.has_value()) << "rows with scales of their own are not exchanged between ranks";
    EXPECT_EQ(codes.dtype, fused.norm.output_dtype());
    if (codes.is_coded()) expect_bits(values_of(codes), values_of(plain.f32(), inputs));
  }
}

TEST(InputQuant, AddForwardWritesTheCodesAndTheResidual) {
  for (const CodedInputs& inputs : all_inputs()) {
    Fed fused(options(inputs)), unfused(options(inputs, false));
    const Matrix second = normal_matrix(kRows, kWidth, 5);
    Matrix codes_residual = normal_matrix(kRows, kWidth, 4), plain_residual = codes_residual;
    const ConstF32View parts[] = {fused.x.view(), second.view()};
    const MutableActivation codes = fused.norm.output(fused.rank.ctx, kRows), plain = unfused.norm.output(unfused.rank.ctx, kRows);
    fused.norm.add_forward(fused.rank.ctx, codes_residual.view(), parts, codes);
    unfused.norm.add_forward(unfused.rank.ctx, plain_residual.view(), parts, plain);
    expect_bits(codes_residual, plain_residual);
    if (codes.is_coded()) expect_bits(values_of(codes.view()), values_of(plain.view().f32(), inputs));
  }
}

TEST(InputQuant, SiluAndMulWritesCodesWithStaticScalesOrThoseOfRows) {
  for (const CodedInputs& inputs : all_inputs()) {
    Fed fused(options(inputs)), unfused(options(inputs, false));
    Matrix gate_up = normal_matrix(kRows, 2 * kWidth, 6, 3.0F);
    std::fill_n(gate_up.view().row(4), 2 * kWidth, 0.0F);  // its scale is 1
    const Activation plain = silu_and_mul(unfused.rank.ctx, gate_up.view(), unfused.consumer);
    ASSERT_EQ(plain.dtype, DType::kF32);
    const Activation codes = silu_and_mul(fused.rank.ctx, gate_up.view(), fused.consumer);
    EXPECT_LE(fused.rank.ctx.arena().mark(), silu_stage_bytes(fused.consumer, kRows, 1));
    ASSERT_TRUE(codes.is_coded());
    EXPECT_EQ(codes.dtype, inputs.codes);
    expect_bits(values_of(codes), values_of(plain.f32(), inputs));
    // One row, as decode has it, and the rows on several threads.
    for (int64_t r = 0; r < kRows; ++r) {
      expect_bits(values_of(silu_and_mul(fused.rank.ctx, gate_up.view().slice(r, 1), fused.consumer)), values_of(codes.slice(r, 1)));
    }
    ThreadTeam team(3, 3);
    ForwardContext several{fused.rank.batch, {&layer_test::best_kernels(), &team}, fused.rank.memory, fused.rank.kv, *fused.rank.attention};
    fused.rank.memory.next_stage();
    expect_bits(values_of(silu_and_mul(several, gate_up.view(), fused.consumer)), values_of(codes));
    EXPECT_LE(several.arena().mark(), silu_stage_bytes(fused.consumer, kRows, team.size()));
  }
}

TEST(InputQuant, ASliceOfTheColumnsKeepsTheScales) {
  Fed fused(options({.codes = DType::kU8}));
  const Matrix gate_up = normal_matrix(kRows, 2 * kWidth, 6);
  const Activation codes = silu_and_mul(fused.rank.ctx, gate_up.view(), fused.consumer);
  const Matrix all = values_of(codes), part = values_of(codes.columns(7, 20).slice(2, 5));
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < 20; ++c) ASSERT_EQ(part.at(r, c), all.at(2 + r, 7 + c));
}

TEST(InputQuantDeath, CodesForALayerThatDoesNotTakeThem) {
  Fed fused(options({.codes = DType::kU8})), unfused(options({.codes = DType::kU8}, false));
  const Activation codes = silu_and_mul(fused.rank.ctx, normal_matrix(1, 2 * kWidth, 6).view(), fused.consumer);
  EXPECT_DEATH((void)unfused.consumer.complete(unfused.rank.ctx, codes), "fc");
}

}  // namespace
}  // namespace lamina
