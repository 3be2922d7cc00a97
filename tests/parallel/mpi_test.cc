// Ranks as processes: tests/parallel/mpi/mpi_ranks.cc under mpirun.

#include "parallel/mpi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/strings.h"

namespace lamina {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome run(const std::string& command) {
  Outcome out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char line[1024];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) out.output += line;
  out.exit_code = WEXITSTATUS(pclose(pipe));
  return out;
}

class MpiRanks : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (run("command -v mpirun").exit_code != 0) GTEST_SKIP() << "no mpirun: the Debian package openmpi-bin is not installed";
    if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "built without Open MPI (libopenmpi-dev)";
  }

  /// Beyond three minutes the shell ends it, with exit code 124.
  static Outcome ranks(int size, const char* mode, std::string_view options = "") {
    return run(cat("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 180 mpirun --oversubscribe --bind-to none ",
                   options, " -n ", size, " ", kProgram, " ", mode));
  }
  static void expect_left(const Outcome& outcome, std::initializer_list<int> left, std::string_view reason) {
    EXPECT_THAT(outcome.exit_code, testing::AllOf(testing::Ne(0), testing::Ne(124)));
    for (const int rank : left) EXPECT_THAT(outcome.output, HasSubstr(cat("rank ", rank, " leaves: ", reason)));
    EXPECT_THAT(outcome.output, Not(HasSubstr("is done")));
  }

  static constexpr const char* kProgram = LAMINA_BINARY_DIR "/mpi_ranks";
};

TEST_P(MpiRanks, PassTheSuiteAndEndInGoodOrder) {
  for (const int size : {2, 3, 4}) {
    const Outcome outcome = ranks(size, "suite", GetParam());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    for (int rank = 0; rank < size; ++rank) EXPECT_THAT(outcome.output, HasSubstr(cat("rank ", rank, " is done")));
  }
}

TEST_P(MpiRanks, AKilledRankEndsAllOthers) { expect_left(ranks(3, "die", GetParam()), {0, 1}, "rank 2 of 3 is gone"); }

TEST_P(MpiRanks, AKilledRankZeroEndsAllOthers) { expect_left(ranks(3, "root-dies", GetParam()), {1, 2}, "rank 0 of 3 is gone"); }

INSTANTIATE_TEST_SUITE_P(Transport, MpiRanks, testing::Values("", "--mca btl self,tcp"),
                         [](const auto& c) { return std::string_view(c.param).empty() ? "SharedMemory" : "TcpOnly"; });

class MpiFaults : public MpiRanks {
 protected:
  static constexpr const char* kLate = "rank 1 did not come to all_reduce_sum of group \"tp\" within 1000 ms";

  /// A busy machine may put off another rank too, for longer than a second: then that one is named, and the run says nothing of rank 1.
  static Outcome late() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    Outcome out = ranks(3, "late");
    while (out.output.find(kLate) == std::string::npos && out.output.find(" did not come to ") != std::string::npos &&
           std::chrono::steady_clock::now() < end) {
      out = ranks(3, "late");
    }
    return out;
  }
};

TEST_P(MpiFaults, EndAllRanksWithTheirReason) {
  const std::string_view mode = GetParam();
  if (mode == "idle") expect_left(ranks(3, "idle"), {0, 1}, "rank 2 of 3 is gone");
  if (mode == "raise") expect_left(ranks(3, "raise"), {0, 1, 2}, "rank 1: no memory for the KV pool");
  if (mode == "late") expect_left(late(), {0, 1, 2}, kLate);
}

INSTANTIATE_TEST_SUITE_P(Kind, MpiFaults, testing::Values("idle", "raise", "late"), [](const auto& c) { return std::string(c.param); });

TEST(MpiLibrary, IsAskedForUnderMpirunOnly) {
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_FALSE(under_mpirun());
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_FALSE(under_mpirun());
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_TRUE(under_mpirun());
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

TEST(MpiLibrary, AMissingLibraryIsAnErrorThatNamesFileAndPackage) {
  setenv("LAMINA_MPI_LIBRARY", "/nowhere/liblamina_mpi.so", 1);
  RankFault fault;
  const auto world = open_process_world(fault, {});
  unsetenv("LAMINA_MPI_LIBRARY");
  ASSERT_FALSE(world.ok());
  EXPECT_THAT(world.error().message, testing::AllOf(HasSubstr("/nowhere/liblamina_mpi.so"), HasSubstr("openmpi-bin")));
}

}  // namespace
}  // namespace lamina
