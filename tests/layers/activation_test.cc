#include "layers/activation.h"

#include <gtest/gtest.h>

#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::Matrix;
using layer_test::normal_matrix;
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

}  // namespace
}  // namespace lamina
