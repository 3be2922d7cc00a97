#include "parallel/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/strings.h"

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
  EXPECT_THAT(validate({.tp_size = 1 << 20, .pp_size = 1 << 20}).error().message, HasSubstr("--tp-size 1048576"));
  EXPECT_TRUE(validate({.tp_size = 8, .pp_size = 16, .dp_attention = 8}).ok());
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

TEST(ParallelGroups, ConnectIsAskedForTheMembersOfEachGroup) {
  const Topology topology{.tp_size = 4, .pp_size = 2, .dp_attention = 2};
  std::vector<std::string> asked;
  const auto connect = [&](std::string_view name, const std::vector<int>& members, int index) {
    std::string line = cat(name, " ", index, ":");
    for (const int member : members) line += cat(" ", member);
    asked.push_back(line);
    return std::unique_ptr<Communicator>(std::make_unique<SelfCommunicator>());
  };
  ParallelGroups::connected(topology, 6, connect);
  EXPECT_THAT(asked, testing::ElementsAre("tp 2: 4 5 6 7", "attn_tp 0: 6 7", "attn_dp 1: 4 6", "pp 1: 2 6", "world 6: 0 1 2 3 4 5 6 7"));
}

TEST(ParallelGroups, GroupsOfThreadsReachTheirMembersAlone) {
  const Topology topology{.tp_size = 4, .pp_size = 2, .dp_attention = 2};
  RankFault fault;
  std::vector<ParallelGroups> all = make_thread_groups(topology, fault);
  ASSERT_EQ(all.size(), 8U);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&, rank] {
      const auto sum_of = [&](const char* name) {
        auto value = static_cast<float>(1 << rank);
        group(all[static_cast<size_t>(rank)], name).communicator->all_reduce_sum({&value, 1, 1});
        return static_cast<int>(value);
      };
      const int stage = rank / 4 * 4, pair = rank / 2 * 2, twin = stage + rank % 2;
      EXPECT_EQ(sum_of("tp"), 0xF << stage);
      EXPECT_EQ(sum_of("attn_tp"), 3 << pair);
      EXPECT_EQ(sum_of("attn_dp"), 5 << twin);
      EXPECT_EQ(sum_of("pp"), 0x11 << rank % 4);
      EXPECT_EQ(sum_of("world"), 0xFF);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fault.message(), "");
}

TEST(StageLayers, EvenStagesWithTheRestOnTheLast) {
  const auto counts = [](int64_t layers, const Topology& topology) {
    std::vector<int64_t> out;
    int64_t at = 0;
    for (int stage = 0; stage < topology.pp_size; ++stage) {
      const StageLayers layers_of = stage_layers(layers, topology, stage).value();
      EXPECT_EQ(layers_of.begin, at);
      at = layers_of.end();
      out.push_back(layers_of.count);
    }
    EXPECT_EQ(at, layers);
    return out;
  };
  EXPECT_THAT(counts(4, {.pp_size = 2}), testing::ElementsAre(2, 2));
  EXPECT_THAT(counts(11, {.pp_size = 4}), testing::ElementsAre(2, 3, 3, 3));
  EXPECT_THAT(counts(126, {.pp_size = 16}), testing::ElementsAre(7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8));
  EXPECT_THAT(counts(10, {.pp_size = 3, .pp_layer_partition = {5, 1, 4}}), testing::ElementsAre(5, 1, 4));
}

TEST(StageLayers, ImpossiblePartitionsNameTheFlag) {
  const auto message = [](int64_t layers, const Topology& topology) { return stage_layers(layers, topology, 0).error().message; };
  EXPECT_THAT(message(3, {.pp_size = 4}), testing::AllOf(HasSubstr("--pp-size 4"), HasSubstr("3 layers")));
  EXPECT_THAT(message(8, {.pp_size = 2, .pp_layer_partition = {8}}), HasSubstr("--pp-layer-partition has 1"));
  EXPECT_THAT(message(8, {.pp_size = 2, .pp_layer_partition = {4, 5}}), testing::AllOf(HasSubstr("adds up to 9"), HasSubstr("8")));
  EXPECT_THAT(message(8, {.pp_size = 2, .pp_layer_partition = {0, 8}}), HasSubstr("stage 0 has 0 layers"));
}

}  // namespace
}  // namespace lamina
