#include "layers/norm.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::copy;
using layer_test::expect_bits;
using layer_test::Matrix;
using layer_test::normal_matrix;
using layer_test::TestRank;

constexpr int64_t kRows = 9, kWidth = 70;
constexpr double kEps = 1e-5;

/// A norm over kWidth and a linear layer that may read it.
struct Norm {
  explicit Norm(DType dtype = DType::kF32) : rank(ParallelGroups::single(), dtype) {
    rank.load({{"norm.weight", weight}, {"fc.weight", normal_matrix(8, kWidth, 2)}});
  }

  TestRank rank;
  RmsNorm norm{rank.build, "norm", kWidth, kEps};
  ReplicatedLinear consumer{rank.build, {.name = "fc", .in_features = kWidth, .out_features = 8}};
  Matrix weight = normal_matrix(kWidth, 1, 1);
  Matrix x = normal_matrix(kRows, kWidth, 3, 2.5F);
};

/// `got` [rows, width] against the formula in float64. A sum of `width` squares in f32 is off by at most width eps, its root by half that.
void expect_norm(const Matrix& got, const float* x, const float* weight) {
  for (int64_t r = 0; r < got.rows; ++r) {
    double squares = 0;
    for (int64_t c = 0; c < got.cols; ++c) squares += std::pow(static_cast<double>(x[r * got.cols + c]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(got.cols) + kEps);
    for (int64_t c = 0; c < got.cols; ++c) {
      const double wanted = x[r * got.cols + c] * scale * weight[c];
      ASSERT_NEAR(got.at(r, c), wanted, std::abs(wanted) * std::ldexp(static_cast<double>(got.cols) / 2 + 4, -24)) << r << ", " << c;
    }
  }
}

TEST(RmsNorm, DividesByTheRootMeanSquareAndMultipliesTheWeight) {
  Norm t;
  const Activation out = t.norm.forward(t.rank.ctx, t.x.view());
  EXPECT_LE(t.rank.ctx.arena().mark(), t.norm.stage_bytes(kRows, t.rank.team.size()));
  ASSERT_EQ(out.dtype, DType::kF32);
  expect_norm(copy(out), t.x.values.data(), t.weight.values.data());
}

TEST(RmsNorm, WritesTheTypeItsConsumerMultiplies) {
  Norm t(DType::kBF16);
  Matrix wanted = copy(t.norm.forward(t.rank.ctx, t.x.view()));
  for (float& value : wanted.values) value = bf16_to_f32(f32_to_bf16(value));

  t.norm.feeds(t.consumer);
  const Activation out = t.norm.forward(t.rank.ctx, t.x.view());
  EXPECT_EQ(out.dtype, DType::kBF16);
  expect_bits(copy(out), wanted);

  Norm f32;
  f32.norm.feeds(f32.consumer);
  EXPECT_EQ(f32.norm.forward(f32.rank.ctx, f32.x.view()).dtype, DType::kF32);
}

TEST(RmsNorm, AddForwardHasTheBitsOfAddThenNorm) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Norm t(dtype);
    t.norm.feeds(t.consumer);
    Matrix residual = normal_matrix(kRows, kWidth, 4), sum = residual;
    const Matrix second = normal_matrix(kRows, kWidth, 5);
    const MutableActivation fused = t.norm.output(t.rank.ctx, kRows);
    const ConstF32View parts[] = {t.x.view(), second.view()};
    t.norm.add_forward(t.rank.ctx, residual.view(), parts, fused);
    for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += t.x.values[i] + second.values[i];
    expect_bits(residual, sum);
    expect_bits(copy(fused.view()), copy(t.norm.forward(t.rank.ctx, std::as_const(sum).view())));
  }
}

TEST(RmsNorm, ForwardHeadsNormsEachHeadInPlace) {
  constexpr int kHeads = 3, kHeadDim = 20;
  TestRank rank(ParallelGroups::single());
  const RmsNorm norm(rank.build, "q_norm", kHeadDim, kEps);
  const Matrix weight = normal_matrix(kHeadDim, 1, 5), x = normal_matrix(kRows, kHeads * kHeadDim, 6);
  rank.load({{"q_norm.weight", weight}});
  Matrix heads = x;
  norm.forward_heads(rank.ctx, heads.view(), kHeads);
  heads.rows *= kHeads, heads.cols /= kHeads;
  expect_norm(heads, x.values.data(), weight.values.data());
}

}  // namespace
}  // namespace lamina
