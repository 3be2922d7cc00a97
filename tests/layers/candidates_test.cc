#include "layers/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::copy;
using layer_test::expect_bits;
using layer_test::Matrix;
using layer_test::on_ranks;
using layer_test::TestRank;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kVocab = 259;

template <class Value>
void add_row(Matrix& out, Value value) {
  ++out.rows;
  for (int64_t id = 0; id < out.cols; ++id) out.values.push_back(value(id));
}

/// Rows of logits in which equals, infinities and NaN stand on both sides of the borders between ranks.
Matrix hard_rows() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  Matrix out(0, kVocab);
  add_row(out, [&](int64_t) { return normal(random); });
  add_row(out, [&](int64_t) { return std::round(normal(random)); });
  add_row(out, [](int64_t) { return -1e30F; });
  add_row(out, [](int64_t id) { return id % 2 == 0 ? 0.0F : -0.0F; });
  add_row(out, [&](int64_t id) { return id % 3 == 0 ? kNan : id % 5 == 0 ? -kInf : normal(random); });
  add_row(out, [](int64_t) { return kNan; });
  add_row(out, [](int64_t) { return -kInf; });
  add_row(out, [](int64_t id) { return id < 200 ? kNan : -kInf; });
  add_row(out, [](int64_t id) { return id == 258 || id == 130 ? kInf : static_cast<float>(-id); });
  add_row(out, [](int64_t id) { return id == 191 || id == 192 || id == 128 ? 7.0F : id == 2 ? -5.0F : -kInf; });
  add_row(out, [](int64_t id) { return static_cast<float>(id); });
  return out;
}

/// The ids of the `count` largest numbers above -inf, lowest first of equals.
std::vector<int64_t> largest(ConstF32View row, int count) {
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < row.cols; ++id)
    if (row.at(0, id) > -kInf) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return row.at(0, a) > row.at(0, b); });
  ids.resize(std::min(ids.size(), static_cast<size_t>(count)));
  return ids;
}

class Candidates : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OnRanks, Candidates, ::testing::Values(1, 2, 3, 4, 8), ::testing::PrintToStringParamName());

TEST_P(Candidates, OfAllRanksHoldTheLargestOfTheWholeRow) {
  const Matrix rows = hard_rows();
  on_ranks(GetParam(), DType::kF32, [&](TestRank& rank) {
    const ParallelGroup& tp = **rank.groups.find("tp");
    const ShardCut own = *cut({ShardRule::kVocab, kVocab, 1, &tp}, "lm_head");
    for (const int count : {1, 2, 5, 16}) {
      SCOPED_TRACE(::testing::Message() << count << " candidates");
      rank.memory.next_stage();
      const F32View got = gather_candidates(rank.ctx, tp, rows.view().columns(own.begin, own.count), own.begin, count, kVocab);
      EXPECT_EQ(got.rows, rows.rows);
      EXPECT_EQ(got.cols, kVocab);
      EXPECT_EQ(got.data == nullptr, tp.rank != 0);
      if (tp.rank != 0) continue;
      for (int64_t r = 0; r < rows.rows; ++r) {
        const ConstF32View whole = rows.view().slice(r, 1);
        EXPECT_EQ(largest(got.slice(r, 1), count), largest(whole, count)) << "row " << r;
        Matrix sent = copy(got.slice(r, 1));
        for (int64_t id = 0; id < kVocab; ++id)
          if (sent.at(0, id) > -kInf) sent.view().at(0, id) = whole.at(0, id);
        expect_bits(copy(got.slice(r, 1)), sent);  // nothing but -inf and values of the row
      }
    }
  });
}

TEST(CandidatesFault, WhateverTheMemoryHeldInsteadOfTheirIdsIsNotFollowed) {
  RankFault fault;
  TestRank rank(ParallelGroups::over("tp", std::move(make_thread_communicators(2, fault).front())));
  std::fill_n(rank.ctx.arena().take<float>(1 << 16), 1 << 16, 1e30F);
  rank.ctx.arena().reset();
  fault.raise("rank 1 is gone");
  const Matrix rows = hard_rows();
  const F32View got = gather_candidates(rank.ctx, **rank.groups.find("tp"), rows.view().columns(0, 192), 0, 4, kVocab);
  EXPECT_EQ(got.rows, rows.rows);
}

}  // namespace
}  // namespace lamina
