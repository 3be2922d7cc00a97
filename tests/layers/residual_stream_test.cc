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
/// A stream over an embedding, at one rank.
class Residual : public ::testing::Test {
 protected:
  Residual() {
    rank_.load({{"norm.weight", normal_matrix(kWidth, 1, 1)}});
    rank_.set_rows(kRows);
  }

  Partial owed() { return {contribution_.view(), *groups_.tp}; }
  ResidualStream stream() { return {rank_.ctx, groups_, residual_.view()}; }
  Activation read(ResidualStream& stream) { return stream.read(rank_.ctx, alone_, norm_, {}); }
  Matrix normed(const Matrix& x) { return copy(norm_.forward(rank_.ctx, x.view())); }
  Matrix sum() const {
    Matrix out = embedding_;
    for (size_t i = 0; i < out.values.size(); ++i) out.values[i] += contribution_.values[i];
    return out;
  }

  TestRank rank_{ParallelGroups::single()};
  const RowGroups groups_ = rank_.row_groups();
  const BoundaryPlan alone_{.sum = groups_.tp};
  RmsNorm norm_{rank_.build, "norm", kWidth, 1e-6};
  const Matrix embedding_ = normal_matrix(kRows, kWidth, 2);
  Matrix contribution_ = normal_matrix(kRows, kWidth, 3);
  Matrix residual_ = embedding_;
};
using ResidualDeathTest = Residual;

TEST_F(Residual, IsInitialThenPendingThenWritten) {
  ResidualStream stream = this->stream();
  EXPECT_EQ(stream.state(), State::kInitial);
  (void)read(stream);
  EXPECT_EQ(stream.state(), State::kWritten);
  stream.record(owed());
  EXPECT_EQ(stream.state(), State::kPending);
  (void)read(stream);
  EXPECT_EQ(stream.state(), State::kWritten);
}

TEST_F(Residual, TheFirstReadIsTheNormOfTheEmbedding) {
  ResidualStream stream = this->stream();
  expect_bits(copy(read(stream)), normed(embedding_));
  expect_bits(residual_, embedding_);
}

TEST_F(Residual, AReadAddsThePendingContributionOnceAndIsTheNormOfTheSum) {
  ResidualStream stream = this->stream();
  stream.record(owed());
  const Matrix wanted = normed(sum());
  expect_bits(copy(read(stream)), wanted);
  expect_bits(residual_, sum());
  expect_bits(copy(read(stream)), wanted);
  expect_bits(residual_, sum());
}

TEST_F(Residual, ALayerThatOwnsItWritesInPlace) {
  ResidualStream stream = this->stream();
  const F32View owned = stream.owned(rank_.ctx);
  EXPECT_EQ(stream.state(), State::kWritten);
  owned.at(1, 2) = 7.0F;
  const Matrix changed = residual_;
  expect_bits(copy(read(stream)), normed(changed));
}

TEST_F(Residual, OwningItServesTheCaptureBeforeTheLayerWrites) {
  Matrix captured(kRows, kWidth);
  ResidualStream stream = this->stream();
  stream.capture_next(captured.view());
  stream.owned(rank_.ctx).at(0, 0) = 7.0F;
  expect_bits(captured, embedding_);
}

TEST_F(Residual, TheNextReadAloneIsCaptured) {
  Matrix captured(kRows, kWidth);
  ResidualStream stream = this->stream();
  stream.record(owed());
  stream.capture_next(captured.view());
  (void)read(stream);
  expect_bits(captured, copy(std::as_const(residual_).view()));

  const Matrix before = captured;
  stream.record(owed());
  (void)read(stream);
  expect_bits(captured, before);
}

TEST_F(ResidualDeathTest, ASecondContributionBeforeTheFirstIsReadDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream = this->stream();
        stream.record(owed());
        stream.record(owed());
      },
      "a second contribution before the first was read");
}

TEST_F(ResidualDeathTest, DestroyingItWithAPendingContributionDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream = this->stream();
        stream.record(owed());
      },
      "a contribution to the residual was never read");
}

TEST_F(ResidualDeathTest, OwningItWithAPendingContributionDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream = this->stream();
        stream.record(owed());
        (void)stream.owned(rank_.ctx);
      },
      "the residual is not complete");
}

TEST_F(ResidualDeathTest, APlanForAnotherGroupDies) {
  EXPECT_DEATH(
      {
        ResidualStream stream = this->stream();
        stream.record(owed());
        (void)stream.read(rank_.ctx, {.sum = groups_.attn_tp}, norm_, {});
      },
      "the boundary plan does not fit the owed sum");
}

}  // namespace
}  // namespace lamina
