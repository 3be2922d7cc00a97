// Limits of containers, read from fake trees.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/cpu.h"
#include "base/strings.h"

namespace lamina {
namespace {

class LimitsTest : public testing::Test {
 protected:
  LimitsTest() : root_(cat(testing::TempDir(), "lamina-limits-", getpid())) {
    sources_ = {.proc_self_cgroup = root_ + "/self", .cgroup_root = root_ + "/fs", .meminfo = root_ + "/meminfo", .affinity_cpus = 8};
    std::filesystem::create_directories(root_);
  }
  ~LimitsTest() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  const std::string root_;
  LimitSources sources_;
};

TEST_F(LimitsTest, WithoutCgroupsAffinityDecides) { EXPECT_EQ(usable_cpus(sources_), 8); }

TEST_F(LimitsTest, V2QuotaRoundsUp) {
  write("self", "0::/\n");
  for (auto [quota, cpus] : {std::pair{"400000 100000", 4}, {"150000 100000", 2}, {"10000 100000", 1}, {"max 100000", 8}, {"junk", 8}}) {
    write("fs/cpu.max", cat(quota, "\n"));
    EXPECT_EQ(usable_cpus(sources_), cpus) << quota;
  }
}

TEST_F(LimitsTest, AffinityBelowTheQuotaWins) {
  write("self", "0::/\n");
  write("fs/cpu.max", "400000 100000\n");
  sources_.affinity_cpus = 2;
  EXPECT_EQ(usable_cpus(sources_), 2);
}

TEST_F(LimitsTest, TheSmallestQuotaOnTheWayToTheRootCounts) {
  write("self", "0::/a/b/c\n");
  write("fs/a/b/c/cpu.max", "max 100000\n");
  write("fs/a/b/cpu.max", "600000 100000\n");
  write("fs/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(usable_cpus(sources_), 3);
}

TEST_F(LimitsTest, APathOutsideTheNamespaceFallsBackToTheMountsRoot) {
  for (const char* path : {"/docker/0123", "/../../other"}) {
    write("self", cat("0::", path, "\n"));
    write("fs/cpu.max", "200000 100000\n");
    EXPECT_EQ(usable_cpus(sources_), 2) << path;
  }
}

TEST_F(LimitsTest, V1QuotaUnderEitherFolderName) {
  write("self", "4:memory:/\n3:cpu,cpuacct:/job\n0::/\n");
  write("fs/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("fs/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cpus(sources_), 3);
  write("fs/cpu/job/cpu.cfs_quota_us", "50000\n");
  write("fs/cpu/job/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(usable_cpus(sources_), 1);
}

TEST_F(LimitsTest, V1QuotaOfMinusOneIsNone) {
  write("self", "3:cpu:/\n");
  write("fs/cpu/cpu.cfs_quota_us", "-1\n");
  write("fs/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cpus(sources_), 8);
}

TEST_F(LimitsTest, MemoryIsTheSmallestRoomAndFilePagesCountAsFree) {
  write("meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
  EXPECT_EQ(available_memory(sources_), 5000U * 1024);
  write("self", "0::/job\n");
  write("fs/job/memory.max", "1000000\n");
  write("fs/job/memory.current", "700000\n");
  write("fs/job/memory.stat", "anon 100000\ninactive_file 400000\nactive_file 100000\n");
  EXPECT_EQ(available_memory(sources_), 800000U);
  write("fs/memory.max", "max\n");
  EXPECT_EQ(available_memory(sources_), 800000U);
}

TEST_F(LimitsTest, V1MemoryAndUseAboveTheLimit) {
  write("meminfo", "MemAvailable: 5000 kB\n");
  write("self", "4:memory:/job\n");
  write("fs/memory/job/memory.limit_in_bytes", "1000000\n");
  write("fs/memory/job/memory.usage_in_bytes", "300000\n");
  EXPECT_EQ(available_memory(sources_), 700000U);
  write("fs/memory/job/memory.usage_in_bytes", "2000000\n");
  EXPECT_EQ(available_memory(sources_), 0U);
}

TEST(Limits, ThisMachineGivesPlausibleValues) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_GT(available_memory(), 0U);
  EXPECT_GT(current_rss(), 0U);
  const uint64_t current = current_rss();
  EXPECT_GE(peak_rss(), current);  // in this order: to ask may take a page
}

}  // namespace
}  // namespace lamina
