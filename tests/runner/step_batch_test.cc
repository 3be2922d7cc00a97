#include "runner/step_batch.h"

#include <gmock/gmock.h>

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// An entry of `ids` at `prefix_len`, whose pages are 10 + request, 11 + request, ...
void add_entry(StepPlan& plan, int request, int dp_rank, std::vector<TokenId> ids, int64_t prefix_len, bool sample = true) {
  StepEntry entry{.request = RequestId(request), .dp_rank = dp_rank, .prefix_len = prefix_len, .sample = sample};
  entry.token_begin = static_cast<int32_t>(plan.tokens.size());
  entry.token_count = static_cast<int32_t>(ids.size());
  entry.page_begin = static_cast<int32_t>(plan.pages.size());
  entry.page_count = static_cast<int32_t>((prefix_len + entry.token_count + 3) / 4);
  plan.tokens.insert(plan.tokens.end(), ids.begin(), ids.end());
  for (int32_t p = 0; p < entry.page_count; ++p) plan.pages.push_back(PageId(10 * request + p));
  plan.entries.push_back(entry);
}

StepBatch batch_of(const StepPlan& plan, const Topology& topology, int rank, const char* dp_padding = "auto") {
  StepBatch batch(topology, rank, dp_padding, 4, 64);
  batch.build(plan);
  return batch;
}

std::vector<std::array<int64_t, 3>> selected(const StepBatch& batch) {
  std::vector<std::array<int64_t, 3>> out;
  for (const SelectedRows& rows : batch.selected()) out.push_back({static_cast<int64_t>(rows.entry), rows.first, rows.count});
  return out;
}

const Topology kDp2{.tp_size = 2, .dp_attention = 2};

/// Decodes of ranks 1, 0, 1 and a prompt chunk of rank 0 whose every row has logits.
StepPlan mixed_plan() {
  StepPlan plan;
  add_entry(plan, 1, 1, {41}, 5);
  add_entry(plan, 2, 0, {42}, 0);
  add_entry(plan, 3, 1, {43}, 3);
  add_entry(plan, 4, 0, {51, 52, 53}, 4, false);
  plan.entries[3].all_logits = true;
  return plan;
}

TEST(StepBatch, OneRankHasTheRowsInThePlansOrder) {
  StepPlan plan;
  add_entry(plan, 1, 0, {41}, 5);
  add_entry(plan, 2, 0, {51, 52}, 3, false);
  const StepBatch batch = batch_of(plan, {}, 0);
  EXPECT_THAT(batch.batch().input_ids, ElementsAre(41, 51, 52));
  EXPECT_THAT(batch.batch().positions, ElementsAre(5, 3, 4));
  EXPECT_THAT(batch.batch().out_cache_loc, ElementsAre(11 * 4 + 1, 20 * 4 + 3, 21 * 4));
  EXPECT_EQ(batch.batch().real_rows, 3);
  EXPECT_EQ(batch.batch().local_begin(), 0);
  EXPECT_THAT(selected(batch), ElementsAre(std::array<int64_t, 3>{0, 0, 1}));
}

TEST(StepBatch, FullRowsAreThoseOfEveryAttentionDpRankOneAfterTheOther) {
  const StepPlan plan = mixed_plan();
  const StepBatch first = batch_of(plan, kDp2, 0), second = batch_of(plan, kDp2, 1);
  for (const StepBatch* batch : {&first, &second}) {
    EXPECT_FALSE(batch->batch().dp_padded) << "a step with a prompt is ragged";
    EXPECT_THAT(batch->batch().input_ids, ElementsAre(42, 51, 52, 53, 41, 43));
    EXPECT_THAT(batch->batch().dp_rows, ElementsAre(4, 2));
    EXPECT_THAT(batch->batch().dp_selected, ElementsAre(4, 2));
    // The head multiplies rank 0's rows first: the second entry, the fourth's three, then the first and the third.
    EXPECT_THAT(selected(*batch), ElementsAre(std::array<int64_t, 3>{1, 0, 1}, std::array<int64_t, 3>{3, 1, 3},
                                              std::array<int64_t, 3>{0, 4, 1}, std::array<int64_t, 3>{2, 5, 1}));
  }
  EXPECT_THAT(first.batch().positions, ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(first.entries(), ElementsAre(1, 3));
  EXPECT_EQ(first.batch().local_begin(), 0);
  EXPECT_THAT(second.batch().positions, ElementsAre(5, 3));
  EXPECT_THAT(second.entries(), ElementsAre(0, 2));
  EXPECT_EQ(second.batch().local_begin(), 4);
  EXPECT_EQ(second.batch().sequences[1].row_begin, 1) << "of the local rows";
}

TEST(StepBatch, PaddingRowsAreNotRealAndNameSlotZero) {
  const StepBatch batch = batch_of(mixed_plan(), kDp2, 1, "padded");
  EXPECT_TRUE(batch.batch().dp_padded);
  EXPECT_THAT(batch.batch().input_ids, ElementsAre(42, 51, 52, 53, 41, 43, 0, 0));
  EXPECT_THAT(batch.batch().positions, ElementsAre(5, 3, 0, 0));
  EXPECT_THAT(batch.batch().out_cache_loc, ElementsAre(11 * 4 + 1, 30 * 4 + 3, 0, 0));
  EXPECT_THAT(batch.batch().dp_rows, ElementsAre(4, 4));
  EXPECT_EQ(batch.batch().real_rows, 2);
}

TEST(StepBatch, ARankWithoutRowsHasNoneOrPaddingOnly) {
  StepPlan plan;
  add_entry(plan, 1, 0, {41}, 5);
  const StepBatch ragged = batch_of(plan, kDp2, 1, "ragged"), padded = batch_of(plan, kDp2, 1, "auto");
  EXPECT_EQ(ragged.batch().rows(), 0);
  EXPECT_EQ(ragged.batch().full_rows(), 1);
  EXPECT_EQ(padded.batch().rows(), 1);
  EXPECT_EQ(padded.batch().real_rows, 0);
  EXPECT_THAT(padded.batch().sequences, IsEmpty());
}

TEST(StepBatch, AHeadOfItsOwnMultipliesTheRowsOfItsRank) {
  Topology topology = kDp2;
  topology.dp_lm_head = true;
  EXPECT_THAT(selected(batch_of(mixed_plan(), topology, 1)), ElementsAre(std::array<int64_t, 3>{0, 0, 1}, std::array<int64_t, 3>{2, 1, 1}));
}

TEST(StepBatch, ASecondStepForgetsTheFirst) {
  StepBatch batch = batch_of(mixed_plan(), kDp2, 1, "padded");
  StepPlan plan;
  add_entry(plan, 7, 1, {44}, 0);
  batch.build(plan);
  EXPECT_THAT(batch.batch().input_ids, ElementsAre(0, 44));
  EXPECT_THAT(batch.entries(), ElementsAre(0));
  EXPECT_THAT(selected(batch), ElementsAre(std::array<int64_t, 3>{0, 0, 1}));
}

TEST(StepBatch, RowsArePaddedWhereThatAtMostDoublesADecodeStep) {
  struct Case {
    const char* option;
    std::vector<int64_t> rows;
    bool prefill, padded;
  };
  const Case cases[] = {{"auto", {3, 3}, false, true},       {"auto", {3, 0}, false, true},        {"auto", {3, 3}, true, false},
                        {"auto", {4, 2, 1, 1}, false, true}, {"auto", {5, 2, 1, 1}, false, false}, {"padded", {9, 0, 0, 0}, true, true},
                        {"ragged", {3, 3}, false, false},    {"padded", {3}, false, false}};
  for (const Case& c : cases) EXPECT_EQ(pads_rows(c.option, c.rows, c.prefill), c.padded) << c.option << ' ' << c.rows.size();
}

}  // namespace
}  // namespace lamina
