#include "base/numa.h"

#include <gmock/gmock.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/strings.h"
#include "base/thread_team.h"

namespace lamina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NumaRoot : public testing::Test {
 protected:
  NumaRoot() : root_(cat(testing::TempDir(), "lamina-numa-", getpid())) { std::filesystem::create_directories(root_); }
  ~NumaRoot() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const std::string root_;
};

TEST_F(NumaRoot, NodesComeInOrderOfTheirIdsWhicheverAreMissing) {
  write("node10/cpulist", "\n");  // memory alone
  write("node2/cpulist", "4-6,12\n");
  write("node0/cpulist", "0-3,8-11\n");
  write("online", "0,2,10\n");
  write("nodes/cpulist", "junk\n");
  const Result<std::vector<NumaNode>> nodes = read_numa_nodes(root_);
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  ASSERT_EQ(nodes->size(), 3U);
  EXPECT_EQ((*nodes)[0].id, 0);
  EXPECT_THAT((*nodes)[0].cpus, ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
  EXPECT_EQ((*nodes)[1].id, 2);
  EXPECT_THAT((*nodes)[1].cpus, ElementsAre(4, 5, 6, 12));
  EXPECT_EQ((*nodes)[2].id, 10);
  EXPECT_THAT((*nodes)[2].cpus, IsEmpty());
}

TEST_F(NumaRoot, AKernelWithoutNumaHasNoNodes) {
  EXPECT_THAT(*read_numa_nodes(root_ + "/absent"), IsEmpty());
  EXPECT_THAT(*read_numa_nodes(root_), IsEmpty());
}

TEST_F(NumaRoot, WhatIsNoListOfCpusIsNamedWithItsFile) {
  for (const char* text : {"junk", "0-", "-3", "3-1", "0,,1", "0-3,3", "0 1", "0-99999999", "99999999999", "1,0", "0x1"}) {
    write("node1/cpulist", cat(text, "\n"));
    const Result<std::vector<NumaNode>> nodes = read_numa_nodes(root_);
    ASSERT_FALSE(nodes.ok()) << text;
    EXPECT_THAT(nodes.error().message, HasSubstr(cat(root_, "/node1/cpulist: '", text, "' is no list of CPUs")));
  }
  std::filesystem::remove(root_ + "/node1/cpulist");
  EXPECT_THAT(read_numa_nodes(root_).error().message, HasSubstr(root_ + "/node1/cpulist"));
}

TEST(Numa, ThisMachinesNodesCanBeRead) { EXPECT_TRUE(read_numa_nodes(kNumaRoot).ok()); }

TEST(Numa, RanksArePlacedByNodes) {
  const char* const kTwo = "0-3,8-11|4-7,12-15";
  const struct {
    const char *nodes, *allowed;  // CPUs of node 0 | 1 | 2 ...
    int ranks;
    std::vector<std::string> places;  // and their share of the CPUs; "" for one that is not bound
  } table[] = {
      {kTwo, "0-15", 1, {"nodes 0-1 (CPUs 0-15), memory from each in turn: 16"}},
      {kTwo, "0-15", 2, {"node 0 (CPUs 0-3,8-11): 8", "node 1 (CPUs 4-7,12-15): 8"}},
      {kTwo, "0-15", 3, {"node 0 (CPUs 0-3,8-11): 4", "node 0 (CPUs 0-3,8-11): 4", "node 1 (CPUs 4-7,12-15): 8"}},
      {kTwo, "2-5", 2, {"node 0 (CPUs 2-3): 2", "node 1 (CPUs 4-5): 2"}},
      {kTwo, "3-7", 2, {"node 0 (CPUs 3): 1", "node 1 (CPUs 4-7): 4"}},
      {kTwo, "3-4", 4, {"node 0 (CPUs 3): 0", "node 0 (CPUs 3): 0", "node 1 (CPUs 4): 0", "node 1 (CPUs 4): 0"}},
      {kTwo, "0-3", 2, {": 2", ": 2"}},                                          // one node is left
      {"0-3", "0-3", 1, {": 4"}},                                                // one node
      {"", "0-3", 3, {": 1", ": 1", ": 1"}},                                     // none known
      {"0-1||2-3", "0-3", 2, {"node 0 (CPUs 0-1): 2", "node 2 (CPUs 2-3): 2"}},  // node 1 is memory alone
      {"0|1|2|3", "0-3", 2, {"nodes 0-1 (CPUs 0-1), memory from each in turn: 2", "nodes 2-3 (CPUs 2-3), memory from each in turn: 2"}},
      {"0|1|2", "0-2", 2, {"node 0 (CPUs 0): 1", "nodes 1-2 (CPUs 1-2), memory from each in turn: 2"}},
  };
  for (const auto& [texts, allowed, ranks, expected] : table) {
    std::vector<NumaNode> nodes;
    for (const std::string& text : split(texts, '|')) nodes.push_back({static_cast<int>(nodes.size()), *parse_cpu_list(text)});
    std::vector<std::string> places;
    for (const RankPlace& own : place_ranks(nodes, *parse_cpu_list(allowed), ranks)) {
      places.push_back(cat(own.place.cpus.empty() ? "" : own.text(), ": ", own.cpus));
    }
    EXPECT_EQ(places, expected) << texts << ", " << allowed << ", " << ranks;
  }
}

TEST(Numa, TheThreadsOfAPlacedTeamStayThereAndItsCallerGoesBack) {
  const std::vector<int> before = allowed_cpus();
  const ThreadPlace place{.cpus = {before.back()}, .nodes = {0}};
  std::vector<std::vector<int>> seen(2);
  ThreadTeam team(2, 1, place);
  {
    const PlacedThread placed(team.place());
    ASSERT_TRUE(placed.status().ok()) << placed.status().error().message;
    team.run([&](int thread) { seen[static_cast<size_t>(thread)] = allowed_cpus(); });
  }
  EXPECT_THAT(seen, testing::Each(place.cpus));
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(Numa, MemoryOfSeveralNodesIsDealtOutUntilTheThreadGoesBack) {
  const auto mode = [] {
    int out = -1;
    syscall(SYS_get_mempolicy, &out, nullptr, 0UL, nullptr, 0UL);
    return out;
  };
  const int before = mode();
  {
    const PlacedThread placed({.cpus = allowed_cpus(), .nodes = {0, 1}});
    if (!placed.status().ok()) GTEST_SKIP() << placed.status().error().message;
    EXPECT_EQ(mode(), MPOL_INTERLEAVE);
  }
  EXPECT_EQ(mode(), before);
}

TEST(Numa, ARefusalIsToldAndChangesNothing) {
  const std::vector<int> before = allowed_cpus();
  {
    const PlacedThread placed({.cpus = {(1 << 16) - 1}, .nodes = {0}});
    ASSERT_FALSE(placed.status().ok());
    EXPECT_THAT(placed.status().error().message, HasSubstr("the system refuses sched_setaffinity"));
    EXPECT_EQ(allowed_cpus(), before);
  }
  EXPECT_EQ(allowed_cpus(), before);
}

}  // namespace
}  // namespace lamina
