#include "layers/boundary/residual_stream.h"

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

using State = ResidualStream::State;
constexpr int64_t kRows = 4, kWidth = 33;
constexpr BoundaryPlan kAlone{.completion = Completion::kNothingOwed};

/// A stream over an embedding, at one rank.
class Residual : public ::testing::Test {
 protected:
  Residual() { rank_.load({{"norm.weight", normal_matrix(kWidth, 1, 1)}}); }

  Partial owed() { return {contribution_.view(), *rank_.groups.find("tp").value()}; }
  Matrix normed(const Matrix& x) { return copy(norm_.forward(rank_.ctx, x.view())); }
  Matrix sum() const {
    Matrix out = embedding_;
    for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += contribution_.values[i];
    return out;
  }

  TestRank rank_{ParallelGroups::single()};
  RmsNorm norm_{rank_.build, "norm", kWidth, 1e-6};
  const Matrix embedding_ = normal_matrix(kRows, kWidth, 2);
  Matrix contribution_ = normal_matrix(kRows, kWidth, 3);
  Matrix residual_ = embedding_;
};
using ResidualDeathTest = Residual;

TEST_F(Residual, IsInitialThenPendingThenWritten) {
  ResidualStream stream(residual_.view());
  EXPECT_EQ(stream.state(), State::kInitial);
  (void)stream.read(rank_.ctx, kAlone, norm_);
  EXPECT_EQ(stream.state(), State::kWritten);
  stream.record(owed());
  EXPECT_EQ(stream.state(), State::kPending);
  (void)stream.read(rank_.ctx, kAlone, norm_);
  EXPECT_EQ(stream.state(), State::kWritten);
}

TEST_F(Residual, TheFirstReadIsTheNormOfTheEmbedding) {
  ResidualStream stream(residual_.view());
  expect_bits(copy(stream.read(rank_.ctx, kAlone, norm_)), normed(embedding_));
  expect_bits(residual_, embedding_);
}

TEST_F(Residual, AReadAddsThePendingContributionOnceAndIsTheNormOfTheSum) {
  ResidualStream stream(residual_.view());
  stream.record(owed());
  const Matrix wanted = normed(sum());
  expect_bits(copy(stream.read(rank_.ctx, kAlone, norm_)), wanted);
  expect_bits(residual_, sum());
  expect_bits(copy(stream.read(rank_.ctx, kAlone, norm_)), wanted);
  expect_bits(residual_, sum());
}

TEST_F(Residual, ALayerThatOwnsItWritesInPlace) {
  ResidualStream stream(residual_.view());
  const F32View owned = stream.owned();
  EXPECT_EQ(stream.state(), State::kWritten);
  owned.at(1, 2) = 7.0F;
  const Matrix changed = residual_;
  expect_bits(copy(stream.read(rank_.ctx, kAlone, norm_)), normed(changed));
}

TEST_F(Residual, OwningItServesTheCaptureBeforeTheLayerWrites) {
  Matrix captured(kRows, kWidth);
  ResidualStream stream(residual_.view());
  stream.capture_next(captured.view());
  stream.owned().at(0, 0) = 7.0F;
  expect_bits(captured, embedding_);
}

TEST_F(Residual, TheNextReadAloneIsCaptured) {
  Matrix captured(kRows - 1, kWidth);  // real rows: the last is padding
  ResidualStream stream(residual_.view());
  stream.record(owed());
  stream.capture_next(captured.view());
  (void)stream.read(rank_.ctx, kAlone, norm_);
  expect_bits(captured, copy(std::as_const(residual_).view().slice(0, kRows - 1)));

  const Matrix before = captured;
  stream.record(owed());
  (void)stream.read(rank_.ctx, kAlone, norm_);
  expect_bits(captured, before);
}

TEST_F(ResidualDeathTest, ASecondContributionBeforeTheFirstIsReadDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream(residual_.view());
        stream.record(owed());
        stream.record(owed());
      },
      "a second contribution before the first was read");
}

TEST_F(ResidualDeathTest, DestroyingItWithAPendingContributionDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream(residual_.view());
        stream.record(owed());
      },
      "a contribution to the residual was never read");
}

TEST_F(ResidualDeathTest, OwningItWithAPendingContributionDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream(residual_.view());
        stream.record(owed());
        (void)stream.owned();
      },
      "the residual is not complete");
}

TEST_F(ResidualDeathTest, APlanForAnotherGroupSizeDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream(residual_.view());
        stream.record(owed());
        (void)stream.read(rank_.ctx, {.completion = Completion::kAllReduce}, norm_);
      },
      "the boundary plan does not fit the owed sum");
}

}  // namespace
}  // namespace lamina
