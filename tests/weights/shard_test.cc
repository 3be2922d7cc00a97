#include "weights/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace lamina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ParallelGroup tp(int size, int rank) { return {.name = "tp", .size_flag = "--tp-size", .size = size, .rank = rank}; }

struct RuleCase {
  const char* name;
  ShardRule rule;
  int64_t units;
  int64_t unit;
};

const RuleCase kRuleCases[] = {
    {"replicate", ShardRule::kReplicate, 37, 1},    {"split", ShardRule::kSplit, 5040, 1},  // divides by 1..10, 12, 14, 15, 16
    {"heads", ShardRule::kHeads, 32, 128},          {"kv_heads 1", ShardRule::kKvHeads, 1, 16},
    {"kv_heads 2", ShardRule::kKvHeads, 2, 8},      {"kv_heads 4", ShardRule::kKvHeads, 4, 3},
    {"kv_heads 8", ShardRule::kKvHeads, 8, 64},     {"vocab small", ShardRule::kVocab, 5, 1},
    {"vocab 259", ShardRule::kVocab, 259, 1},       {"vocab 32001", ShardRule::kVocab, 32001, 1},
    {"vocab 128256", ShardRule::kVocab, 128256, 1}, {"vocab 250682", ShardRule::kVocab, 250682, 1},
};

bool divides(const RuleCase& c, int ranks) {
  switch (c.rule) {
    case ShardRule::kSplit:
    case ShardRule::kHeads:
      return c.units % ranks == 0;
    case ShardRule::kKvHeads:
      return c.units % ranks == 0 || ranks % c.units == 0;
    default:
      return true;
  }
}

/// Cuts of all ranks laid over each other: each on-disk row is held exactly `replicas` times, and reading the parts back in rank order
/// gives the rows in order.
TEST(Shard, CutsCoverEveryRowExactlyReplicasTimesAtOneToSixteenRanks) {
  for (const RuleCase& c : kRuleCases) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      SCOPED_TRACE(testing::Message() << c.name << " over " << ranks);
      std::vector<int> held(static_cast<size_t>(c.units * c.unit), 0);
      std::vector<int64_t> unsharded;
      for (int rank = 0; rank < ranks; ++rank) {
        const ParallelGroup group = tp(ranks, rank);
        const ShardDim dim{c.rule, c.units, c.unit, &group};
        const Result<ShardCut> share = cut(dim, "w");
        ASSERT_EQ(share.ok(), divides(c, ranks));
        if (!share.ok()) continue;
        EXPECT_GE(share->local.value, share->count);
        EXPECT_EQ(share->global.value, share->local.value * ranks);
        EXPECT_EQ(ranks % share->replicas, 0);
        for (int64_t row = share->begin; row < share->begin + share->count; ++row) {
          ++held[static_cast<size_t>(row)];
          if (rank % share->replicas == 0) unsharded.push_back(row);
        }
        if (c.rule != ShardRule::kVocab) {
          EXPECT_EQ(share->local.value, share->count);
          EXPECT_EQ(share->global.value, dim.on_disk().value * share->replicas);
        }
      }
      if (!divides(c, ranks)) continue;
      const ParallelGroup group = tp(ranks, 0);
      const int replicas = cut({c.rule, c.units, c.unit, &group}, "w")->replicas;
      EXPECT_TRUE(std::all_of(held.begin(), held.end(), [&](int times) { return times == replicas; }));
      std::vector<int64_t> rows(held.size());
      std::iota(rows.begin(), rows.end(), 0);
      EXPECT_TRUE(unsharded == rows);
    }
  }
}

TEST(Shard, VocabularyIsPaddedTo64OnEveryRank) {
  struct {
    int64_t vocab;
    int ranks;
    int64_t local;
  } const cases[] = {{50257, 1, 50304}, {50257, 2, 25152}, {32000, 3, 10688}, {259, 2, 192}, {259, 3, 128}, {259, 4, 128}, {5, 4, 64}};
  for (const auto& c : cases) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ParallelGroup group = tp(c.ranks, rank);
      const ShardCut share = *cut({ShardRule::kVocab, c.vocab, 1, &group}, "embed");
      EXPECT_EQ(share.local, Local(c.local)) << c.vocab << " over " << c.ranks;
      EXPECT_EQ(share.count, std::clamp<int64_t>(c.vocab - share.begin, 0, c.local));
    }
  }
}

TEST(Shard, ErrorsNameTheParameterBothNumbersAndTheFlag) {
  const ParallelGroup eight = tp(8, 0);
  EXPECT_EQ(cut({ShardRule::kHeads, 28, 128, &eight}, "model.layers.0.self_attn.qkv_proj").error().message,
            "model.layers.0.self_attn.qkv_proj: 28 heads do not divide over --tp-size 8");
  EXPECT_THAT(cut({ShardRule::kSplit, 100, 1, &eight}, "mlp").error().message, AllOf(HasSubstr("mlp: 100"), HasSubstr("--tp-size 8")));
  EXPECT_THAT(cut({ShardRule::kKvHeads, 10, 1, &eight}, "qkv").error().message,
              AllOf(HasSubstr("qkv: 10 KV heads"), HasSubstr("--tp-size 8")));
  EXPECT_THAT(cut({ShardRule::kKvHeads, 3, 1, &eight}, "qkv").error().message,
              AllOf(HasSubstr("qkv: 3 KV heads"), HasSubstr("--tp-size 8")));
}

TEST(Shard, WithoutAGroupEverythingIsLocal) {
  for (const ShardRule rule : {ShardRule::kReplicate, ShardRule::kSplit, ShardRule::kHeads, ShardRule::kKvHeads}) {
    EXPECT_EQ(cut({rule, 7, 3, nullptr}, "w")->local, Local(21));
  }
  EXPECT_EQ(cut({ShardRule::kVocab, 7, 1, nullptr}, "w")->local, Local(64));
}

TEST(LocalHeads, MatchesTheCheckedTable) {
  struct {
    int heads, kv_heads, ranks, q, kv, replicas;
  } const cases[] = {{32, 8, 1, 32, 8, 1}, {32, 8, 4, 8, 2, 1}, {32, 8, 16, 2, 1, 2},
                     {32, 4, 8, 4, 1, 2},  {28, 4, 4, 7, 1, 1}, {8, 1, 8, 1, 1, 8}};
  for (const auto& c : cases) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ParallelGroup group = tp(c.ranks, rank);
      const Result<HeadCounts> counts = local_heads(c.heads, c.kv_heads, group, group);
      ASSERT_TRUE(counts.ok()) << counts.error().message;
      EXPECT_EQ(counts->q_heads, c.q);
      EXPECT_EQ(counts->kv_heads, c.kv);
      EXPECT_EQ(counts->kv_replicas, c.replicas);
    }
  }
}

TEST(LocalHeads, RefusesWhatCannotBeCut) {
  struct {
    int heads, kv_heads, ranks;
    const char* message;
  } const cases[] = {
      {28, 4, 8, "28 heads do not divide over --tp-size 8"},   {40, 10, 4, "10 KV heads do not divide over --tp-size 4"},
      {6, 3, 2, "3 KV heads do not divide over --tp-size 2"},  {12, 3, 4, "3 KV heads cannot be replicated over --tp-size 4"},
      {10, 4, 1, "10 heads are not a multiple of 4 KV heads"}, {4, 0, 1, "0 KV heads"}};
  for (const auto& c : cases) {
    const ParallelGroup group = tp(c.ranks, 0);
    EXPECT_THAT(local_heads(c.heads, c.kv_heads, group, group).error().message, HasSubstr(c.message));
  }
}

TEST(LocalHeads, ASeparateKvGroupMustServeTheSameHeads) {
  // 4 KV heads over 8 ranks: pairs of ranks share a head, whether said by replication or by a group of half the size.
  for (int rank = 0; rank < 8; ++rank) {
    const ParallelGroup group = tp(8, rank);
    const ParallelGroup kv_group = {.name = "tp_kv", .size_flag = "--tp-size", .size = 4, .rank = rank / 2};
    const Result<HeadCounts> counts = local_heads(32, 4, group, kv_group);
    ASSERT_TRUE(counts.ok()) << counts.error().message;
    EXPECT_EQ(counts->kv_heads, 1);
    EXPECT_EQ(counts->kv_replicas, 1);
  }
  const ParallelGroup group = tp(8, 1);
  const ParallelGroup kv_group = {.name = "tp_kv", .size_flag = "--tp-size", .size = 2, .rank = 0};
  EXPECT_THAT(local_heads(32, 4, group, kv_group).error().message, HasSubstr("\"tp_kv\""));
}

}  // namespace
}  // namespace lamina
