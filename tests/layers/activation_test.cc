#include "layers/activation.h"

#include <gtest/gtest.h>

#include "tests/layers/coded_format.h"

namespace lamina {
namespace {

using layer_test::CodedInputs;
using layer_test::make_coded_format;
using layer_test::Matrix;
using layer_test::normal_matrix;
using layer_test::RankOptions;
using layer_test::TestRank;

TEST(SiluAndMul, GatesTheSecondHalfInTheTypeTheConsumerMultiplies) {
  constexpr int64_t kInner = 45;
  const Matrix gate_up = normal_matrix(4, 2 * kInner, 1, 4.0F);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestRank rank(ParallelGroups::single(), dtype);
    const RowParallelLinear down_proj(rank.build, {.name = "down_proj", .in_features = kInner, .out_features = 8});
    rank.load({{"down_proj.weight", normal_matrix(8, kInner, 2)}});
    const Activation out = silu_and_mul(rank.ctx, gate_up.view(), down_proj);
    ASSERT_EQ(out.dtype, dtype);
    ASSERT_EQ(out.cols, kInner);
    for (int64_t r = 0; r < out.rows; ++r)
      for (int64_t c = 0; c < kInner; ++c) {
        const double gate = gate_up.at(r, c), wanted = gate / (1 + std::exp(-gate)) * gate_up.at(r, kInner + c);
        const double rounding = dtype == DType::kF32 ? 0 : std::ldexp(1, -8);
        EXPECT_NEAR(layer_test::element(out, r, c), wanted, std::abs(wanted) * (std::ldexp(16, -24) + rounding)) << r << ", " << c;
      }
  }
}

/// The first half of an MLP, and the layer it feeds.
struct Mlp {
  Mlp(const RankOptions& options, int64_t inner, bool bias) : rank(ParallelGroups::single(), options) {
    gate_up.emplace(rank.build, LinearOptions{.name = "gate_up_proj", .in_features = 24, .bias = bias},
                    std::vector<MergedColumnParallelLinear::Output>{{"gate_proj", inner}, {"up_proj", inner}});
    down.emplace(rank.build, LinearOptions{.name = "down_proj", .in_features = inner, .out_features = 8});
    layer_test::Tensors tensors = {{"gate_proj.weight", normal_matrix(inner, 24, 1)},
                                   {"up_proj.weight", normal_matrix(inner, 24, 2)},
                                   {"down_proj.weight", normal_matrix(8, inner, 3)}};
    if (bias) tensors.insert({{"gate_proj.bias", normal_matrix(inner, 1, 4)}, {"up_proj.bias", normal_matrix(inner, 1, 5)}});
    rank.load(tensors);
  }
  Activation forward(const Matrix& x) {
    const Activation out = silu_and_mul(rank.ctx, *gate_up, x.view(), *down);
    EXPECT_LE(rank.ctx.arena().mark(), gate_up->stage_bytes(x.rows) + silu_stage_bytes(*down, x.rows, rank.team.size()));
    return out;
  }
  TestRank rank;
  std::optional<MergedColumnParallelLinear> gate_up;
  std::optional<RowParallelLinear> down;
};

TEST(SiluAndMul, InOneLoopHasTheBitsOfTwo) {
  for (const int64_t inner : {32, 96, 160, 45, 80}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t rows : {1, 9}) {
        Mlp gated({dtype, {.fused = true}}, inner, rows == 9), plain({dtype, {.fused = false}}, inner, rows == 9);
        EXPECT_EQ(gated.gate_up->can_gate(), inner % 32 == 0);
        EXPECT_FALSE(plain.gate_up->can_gate());
        const Matrix x = normal_matrix(rows, 24, 6);
        const Activation got = gated.forward(x), wanted = plain.forward(x);
        EXPECT_EQ(got.dtype, dtype);
        layer_test::expect_bits(layer_test::copy(got), layer_test::copy(wanted));
      }
    }
  }
}

TEST(SiluAndMul, InOneLoopWritesTheSameCodes) {
  // gate_up_proj multiplies f32; its consumer takes codes.
  const std::vector<CodedInputs> all = {{.codes = DType::kU8}, {.codes = DType::kU8, .scale = 0.02F}, {.codes = DType::kBF16}};
  for (const CodedInputs& inputs : all) {
    Mlp gated({DType::kF32, {.fused = true}}, 64, false);
    RankOptions options(DType::kF32, {.fused = true});
    options.make_format = [inputs] { return make_coded_format(inputs); };
    TestRank consumer(ParallelGroups::single(), options);
    const RowParallelLinear down(consumer.build, {.name = "down_proj", .in_features = 64, .out_features = 8});
    consumer.load({{"down_proj.weight", normal_matrix(8, 64, 3)}});
    const Matrix x = normal_matrix(7, 24, 6);
    ForwardContext& ctx = gated.rank.ctx;
    const Activation got = silu_and_mul(ctx, *gated.gate_up, x.view(), down);
    const Activation wanted = silu_and_mul(ctx, gated.gate_up->forward(ctx, x.view()), down);
    ASSERT_TRUE(got.is_coded());
    layer_test::expect_bits(layer_test::values_of(got), layer_test::values_of(wanted));
  }
}

}  // namespace
}  // namespace lamina
