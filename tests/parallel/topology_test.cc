#include "parallel/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lamina {
namespace {

using testing::HasSubstr;

const ParallelGroup& group(const ParallelGroups& groups, std::string_view name) { return *groups.find(name).value(); }

TEST(ParallelGroups, SingleRankHasEveryGroupWithACommunicator) {
  const ParallelGroups groups = ParallelGroups::single();
  for (const char* name : {"tp", "attn_tp", "attn_dp", "pp", "world"}) {
    EXPECT_EQ(group(groups, name).size, 1) << name;
    ASSERT_NE(group(groups, name).communicator, nullptr) << name;
    EXPECT_EQ(group(groups, name).communicator->size(), 1) << name;
  }
}

TEST(ParallelGroups, AttentionDataParallelLivesInsideTp) {
  const Topology topology{.tp_size = 8, .pp_size = 2, .dp_attention = 4};
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    const ParallelGroups groups = std::move(ParallelGroups::planned(topology, rank)).value();
    EXPECT_EQ(group(groups, "tp").size, 8);
    EXPECT_EQ(group(groups, "attn_tp").size, 2);
    EXPECT_EQ(group(groups, "attn_dp").size, 4);
    EXPECT_EQ(group(groups, "pp").rank, rank / 8);
    EXPECT_EQ(group(groups, "world").rank, rank);
    EXPECT_EQ(group(groups, "tp").rank, group(groups, "attn_dp").rank * 2 + group(groups, "attn_tp").rank);
    EXPECT_EQ(group(groups, "tp").communicator, nullptr);
  }
}

TEST(ParallelGroups, ImpossibleSizesNameTheFlag) {
  EXPECT_THAT(ParallelGroups::planned({.tp_size = 4, .dp_attention = 3}, 0).error().message,
              testing::AllOf(HasSubstr("--tp-size 4"), HasSubstr("--dp-attention 3")));
  EXPECT_THAT(ParallelGroups::planned({.tp_size = 0}, 0).error().message, HasSubstr("--tp-size 0"));
  EXPECT_THAT(ParallelGroups::planned({.pp_size = -1}, 0).error().message, HasSubstr("--pp-size -1"));
}

TEST(ParallelGroups, UnknownGroupListsThoseThatExist) {
  const std::string message = ParallelGroups::single().find("tpx").error().message;
  EXPECT_THAT(message, HasSubstr("\"tpx\""));
  EXPECT_THAT(message, HasSubstr("must exist before construction"));
  EXPECT_THAT(message, HasSubstr("tp, attn_tp, attn_dp, pp, world"));
}

TEST(ParallelGroups, OverReplacesOneGroup) {
  RankFault fault;
  auto communicators = make_thread_communicators(3, fault);
  const ParallelGroups groups = ParallelGroups::over("attn_tp", std::move(communicators[2]));
  EXPECT_EQ(group(groups, "attn_tp").size, 3);
  EXPECT_EQ(group(groups, "attn_tp").rank, 2);
  EXPECT_EQ(group(groups, "attn_tp").communicator->rank(), 2);
  EXPECT_EQ(group(groups, "tp").size, 1);
  const ParallelGroups other = ParallelGroups::over("experts", std::move(communicators[1]));
  EXPECT_EQ(group(other, "experts").rank, 1);
}

TEST(ParallelGroups, PointersSurviveAMove) {
  ParallelGroups groups = ParallelGroups::single();
  const ParallelGroup* tp = groups.find("tp").value();
  const ParallelGroups moved = std::move(groups);
  EXPECT_EQ(moved.find("tp").value(), tp);
  EXPECT_EQ(tp->communicator->size(), 1);
}

TEST(ParallelGroups, AReplicatedGroupFoldsNeighbours) {
  ParallelGroups groups = std::move(ParallelGroups::planned({.tp_size = 8}, 5)).value();
  ASSERT_TRUE(groups.add_replicated("tp_kv", "tp", 2).ok());
  EXPECT_EQ(group(groups, "tp_kv").size, 4);
  EXPECT_EQ(group(groups, "tp_kv").rank, 2);
  EXPECT_THAT(groups.add_replicated("tp_kv", "tp", 2).error().message, HasSubstr("exists"));
  EXPECT_THAT(groups.add_replicated("tp_3", "tp", 3).error().message, HasSubstr("--tp-size 8"));
  EXPECT_THAT(groups.add_replicated("tp_0", "tp", 0).error().message, HasSubstr("factor 0"));
  EXPECT_THAT(groups.add_replicated("x_kv", "x", 1).error().message, HasSubstr("\"x\""));
}

}  // namespace
}  // namespace lamina
