#include "layers/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::copy;
using layer_test::element;
using layer_test::exact_matrix;
using layer_test::expect_bits;
using layer_test::expect_product;
using layer_test::Matrix;
using layer_test::normal_matrix;
using layer_test::on_ranks;
using layer_test::TestRank;

constexpr int64_t kVocab = 70, kHidden = 48;

/// Consecutive sequences, then `padding` rows.
void fill(ForwardBatch& batch, const std::vector<std::pair<int64_t, LogitsRows>>& sequences, int64_t padding) {
  batch.clear();
  for (const auto& [rows, logits] : sequences) {
    batch.sequences.push_back({.row_begin = batch.real_rows, .row_count = rows, .logits = logits});
    batch.real_rows += rows;
  }
  batch.input_ids.assign(static_cast<size_t>(batch.real_rows + padding), 0);
}

/// A processor over its own head.
struct Head {
  Head(TestRank& rank, const Matrix& weight) : head(rank.build, "lm_head", kVocab, kHidden), processor(head) {
    rank.load({{"lm_head.weight", weight}});
  }
  ParallelLMHead head;
  LogitsProcessor processor;
};

class Logits : public ::testing::TestWithParam<DType> {
 protected:
  const Matrix weight_ = exact_matrix(kVocab, kHidden, 1);
};

INSTANTIATE_TEST_SUITE_P(, Logits, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& instance) { return instance.param == DType::kF32 ? "F32" : "Bf16"; });

TEST_P(Logits, SelectTakesTheRowsEachSequenceAsksFor) {
  TestRank rank(ParallelGroups::single(), GetParam());
  const Head head(rank, weight_);
  fill(rank.batch, {{3, LogitsRows::kNone}, {1, LogitsRows::kLast}, {4, LogitsRows::kAll}, {5, LogitsRows::kLast}}, 2);
  Matrix hidden = exact_matrix(rank.batch.rows(), kHidden, 2);
  for (int64_t r = rank.batch.real_rows; r < hidden.rows; ++r)
    std::fill_n(hidden.view().row(r), kHidden, std::numeric_limits<float>::quiet_NaN());

  ModelOutput out;
  head.processor.select(rank.ctx, std::as_const(hidden).view(), out);
  const std::pair<int64_t, int64_t> ranges[] = {{0, 0}, {0, 1}, {1, 4}, {5, 1}};
  ASSERT_EQ(out.rows.size(), std::size(ranges));
  for (size_t s = 0; s < out.rows.size(); ++s) EXPECT_EQ(std::pair(out.rows[s].first, out.rows[s].count), ranges[s]) << "sequence " << s;

  const std::vector<int64_t> sources = {3, 4, 5, 6, 7, 12};
  EXPECT_EQ(out.hidden.dtype, GetParam());
  ASSERT_EQ(out.hidden.rows, static_cast<int64_t>(sources.size()));
  for (int64_t r = 0; r < out.hidden.rows; ++r)
    for (int64_t c = 0; c < kHidden; ++c)
      EXPECT_EQ(element(out.hidden, r, c), hidden.at(sources[static_cast<size_t>(r)], c)) << "row " << r;
}

TEST_P(Logits, OfTheSelectedRowsOnly) {
  TestRank rank(ParallelGroups::single(), GetParam());
  const Head head(rank, weight_);
  fill(rank.batch, {{3, LogitsRows::kAll}}, 0);
  const Matrix hidden = exact_matrix(3, kHidden, 3);
  ModelOutput out;
  head.processor.select(rank.ctx, hidden.view(), out);
  const Matrix second = copy(hidden.view().slice(1, 1));
  expect_product(head.processor.compute(rank.ctx, out, 1, 1), second, weight_);
}

TEST_P(Logits, NoneAskedForGiveNone) {
  TestRank rank(ParallelGroups::single(), GetParam());
  const Head head(rank, weight_);
  fill(rank.batch, {{3, LogitsRows::kNone}}, 1);
  const Matrix hidden = exact_matrix(4, kHidden, 4);
  ModelOutput out;
  head.processor.select(rank.ctx, hidden.view(), out);
  EXPECT_EQ(out.hidden.rows, 0);
  EXPECT_EQ(head.processor.compute(rank.ctx, out, 0, 0).rows, 0);
}

TEST_P(Logits, DoNotDependOnTheChunks) {
  const Matrix weight = normal_matrix(kVocab, kHidden, 5), hidden = normal_matrix(40, kHidden, 6);
  on_ranks(2, GetParam(), [&](TestRank& rank) {
    const Head head(rank, weight);
    fill(rank.batch, {{1, LogitsRows::kLast}, {39, LogitsRows::kAll}}, 0);
    ModelOutput out;
    head.processor.select(rank.ctx, hidden.view(), out);
    const Matrix whole = copy(head.processor.compute(rank.ctx, out, 0, 40));
    ASSERT_EQ(whole.cols, kVocab);
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, LogitsProcessor::kLogitsChunk}) {
      Matrix joined(40, kVocab);
      for (int64_t first = 0; first < 40; first += chunk) {
        const F32View part = head.processor.compute(rank.ctx, out, first, std::min(chunk, 40 - first));
        for (int64_t r = 0; r < part.rows; ++r) std::copy_n(part.row(r), kVocab, joined.view().row(first + r));
      }
      expect_bits(joined, whole);
    }
  });
}

}  // namespace
}  // namespace lamina
