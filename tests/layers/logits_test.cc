#include "layers/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

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
using layer_test::on_topology;
using layer_test::TestRank;

constexpr int64_t kVocab = 70, kHidden = 48;

/// Consecutive sequences, then `padding` rows.
void fill(ForwardBatch& batch, const std::vector<std::pair<int64_t, LogitsRows>>& sequences, int64_t padding) {
  batch.clear();
  for (const auto& [rows, logits] : sequences) {
    batch.sequences.push_back({.row_begin = batch.real_rows, .row_count = rows, .logits = logits});
    batch.real_rows += rows;
  }
  batch.positions.assign(static_cast<size_t>(batch.real_rows + padding), 0);
  batch.input_ids.assign(batch.positions.size(), 0);
}

/// A processor over its own head.
struct Head {
  Head(TestRank& rank, const Matrix& weight, std::string_view group = "tp")
      : head(rank.build, "lm_head", kVocab, kHidden, group), processor(rank.build, head) {
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
  expect_product(head.processor.compute(rank.ctx, out, 1, 1, 0), second, weight_);
}

TEST_P(Logits, NoneAskedForGiveNone) {
  TestRank rank(ParallelGroups::single(), GetParam());
  const Head head(rank, weight_);
  fill(rank.batch, {{3, LogitsRows::kNone}}, 1);
  const Matrix hidden = exact_matrix(4, kHidden, 4);
  ModelOutput out;
  head.processor.select(rank.ctx, hidden.view(), out);
  EXPECT_EQ(out.hidden.rows, 0);
  EXPECT_EQ(head.processor.compute(rank.ctx, out, 0, 0, 0).rows, 0);
}

TEST_P(Logits, DoNotDependOnTheChunks) {
  const Matrix weight = normal_matrix(kVocab, kHidden, 5), hidden = normal_matrix(40, kHidden, 6);
  on_ranks(2, GetParam(), [&](TestRank& rank) {
    const Head head(rank, weight);
    fill(rank.batch, {{1, LogitsRows::kLast}, {39, LogitsRows::kAll}}, 0);
    ModelOutput out;
    head.processor.select(rank.ctx, hidden.view(), out);
    const F32View logits = head.processor.compute(rank.ctx, out, 0, 40, 0);
    ASSERT_EQ(logits.cols, kVocab);
    const bool root = rank.index() == 0;
    const Matrix whole = root ? copy(logits) : Matrix();
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, LogitsProcessor::kLogitsChunk}) {
      Matrix joined(40, kVocab);
      for (int64_t first = 0; first < 40; first += chunk) {
        const F32View part = head.processor.compute(rank.ctx, out, first, std::min(chunk, 40 - first), 0);
        for (int64_t r = 0; root && r < part.rows; ++r) std::copy_n(part.row(r), kVocab, joined.view().row(first + r));
      }
      if (root) expect_bits(joined, whole);
    }
  });
}

/// Sequences of each attention-DP rank, and the rows of its hidden states that they select.
struct DpStep {
  std::vector<std::vector<std::pair<int64_t, LogitsRows>>> sequences;
  std::vector<std::vector<int64_t>> sources;
};
const DpStep kDpSteps[] = {
    {{{{3, LogitsRows::kAll}, {2, LogitsRows::kNone}, {4, LogitsRows::kLast}}, {{1, LogitsRows::kLast}}}, {{0, 1, 2, 8}, {0}}},
    {{{{2, LogitsRows::kNone}}, {{1, LogitsRows::kLast}, {2, LogitsRows::kAll}}}, {{}, {0, 1, 2}}},
    {{{{5, LogitsRows::kLast}}, {}}, {{4}, {}}},
    {{{{5, LogitsRows::kNone}}, {}}, {{}, {}}},
};

/// Fills the batch with this rank's part of `step`; the hidden states of all attention-DP ranks.
std::vector<Matrix> fill_dp(TestRank& rank, const DpStep& step) {
  const int dp_rank = rank.index("attn_dp");
  fill(rank.batch, step.sequences[static_cast<size_t>(dp_rank)], 1);
  rank.batch.dp_rank = dp_rank;
  std::vector<Matrix> hidden;
  for (size_t d = 0; d < step.sequences.size(); ++d) {
    rank.batch.dp_selected.push_back(std::ssize(step.sources[d]));
    hidden.push_back(exact_matrix(10, kHidden, static_cast<uint32_t>(20 + d)));
  }
  return hidden;
}
/// Rows `sources` of `hidden`, after those of `out`.
void append_rows(Matrix& out, const Matrix& hidden, const std::vector<int64_t>& sources) {
  out.cols = hidden.cols;
  for (const int64_t row : sources) {
    ++out.rows;
    out.values.insert(out.values.end(), hidden.view().row(row), hidden.view().row(row) + hidden.cols);
  }
}

TEST_P(Logits, OfAllAttentionDpRanksComeTogetherWhereTheHeadIsCutOverTp) {
  on_topology({.tp_size = 4, .dp_attention = 2}, GetParam(), [&](TestRank& rank) {
    const Head head(rank, weight_);
    for (const DpStep& step : kDpSteps) {
      const std::vector<Matrix> hidden = fill_dp(rank, step);
      const auto dp_rank = static_cast<size_t>(rank.batch.dp_rank);
      Matrix wanted;
      for (size_t d = 0; d < hidden.size(); ++d) append_rows(wanted, hidden[d], step.sources[d]);
      ModelOutput out;
      head.processor.select(rank.ctx, hidden[dp_rank].view(), out);
      EXPECT_EQ(copy(out.hidden).values, wanted.values);
      ASSERT_EQ(out.rows.size(), step.sequences[dp_rank].size());
      int64_t first = dp_rank == 0 ? 0 : std::ssize(step.sources[0]);
      for (const ModelOutput::Rows& rows : out.rows) {
        EXPECT_EQ(rows.first, first);
        first += rows.count;
      }
      for (const int candidates : {0, 2}) {
        const F32View logits = head.processor.compute(rank.ctx, out, 0, out.hidden.rows, candidates);
        EXPECT_EQ(logits.rows, wanted.rows);
        EXPECT_EQ(logits.data == nullptr, rank.index() != 0);
        if (rank.index() == 0 && candidates == 0) expect_product(logits, wanted, weight_);
      }
      rank.memory.begin_step();
    }
  });
}

TEST_P(Logits, StayWithEachAttentionDpRankWhereTheHeadIsCutOverItsOwnGroup) {
  on_topology({.tp_size = 4, .dp_attention = 2, .dp_lm_head = true}, GetParam(), [&](TestRank& rank) {
    const Head head(rank, weight_, "attn_tp");
    for (const DpStep& step : kDpSteps) {
      const std::vector<Matrix> hidden = fill_dp(rank, step);
      const auto dp_rank = static_cast<size_t>(rank.batch.dp_rank);
      Matrix wanted;
      append_rows(wanted, hidden[dp_rank], step.sources[dp_rank]);
      ModelOutput out;
      head.processor.select(rank.ctx, hidden[dp_rank].view(), out);
      EXPECT_EQ(copy(out.hidden).values, wanted.values);
      if (!out.rows.empty()) {
        EXPECT_EQ(out.rows[0].first, 0);
      }
      if (out.hidden.rows == 0) continue;
      const F32View logits = head.processor.compute(rank.ctx, out, 0, out.hidden.rows, 0);
      EXPECT_EQ(logits.data == nullptr, rank.index("attn_tp") != 0);
      if (rank.index("attn_tp") == 0) expect_product(logits, wanted, weight_);
      rank.memory.begin_step();
    }
  });
}

TEST(LogitsDeathTest, ACountThatIsNotThatOfTheRowsIsOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TestRank rank(*ParallelGroups::planned({.tp_size = 2, .dp_attention = 2}, 1));
  const Head head(rank, exact_matrix(kVocab, kHidden, 1));
  fill(rank.batch, {{3, LogitsRows::kAll}}, 0);
  rank.batch.dp_rank = 1, rank.batch.dp_selected = {1, 2};
  const Matrix hidden = exact_matrix(3, kHidden, 3);
  ModelOutput out;
  EXPECT_DEATH(head.processor.select(rank.ctx, hidden.view(), out), "dp_selected");
}

}  // namespace
}  // namespace lamina
