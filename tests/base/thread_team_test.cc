#include "base/thread_team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/cpu.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts what the whole test program allocates. Not inlined: the compiler would take malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace lamina {
namespace {

TEST(ThreadTeam, RunCallsEachThreadOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadTeam team(threads, threads);
    ASSERT_EQ(team.size(), threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<int> calls(static_cast<size_t>(threads), 0);
      team.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
      ASSERT_EQ(calls, std::vector<int>(static_cast<size_t>(threads), 1));
    }
  }
}

TEST(ThreadTeam, WritesBeforeAndAfterAForkAreSeen) {
  ThreadTeam team(3, 3);
  int64_t shared = 0;  // plain: the sanitizer build would report a missing order
  int64_t parts[3] = {};
  for (int64_t i = 0; i < 500; ++i) {
    shared = i;
    team.run([&](int thread) { parts[thread] = shared + thread; });
    ASSERT_EQ(parts[0] + parts[1] + parts[2], 3 * i + 3);
  }
}

TEST(ThreadTeam, ParallelForCoversTheRangeOnceInWholeGrains) {
  for (int threads : {1, 2, 4}) {
    ThreadTeam team(threads, threads);
    for (int64_t n : {0, 1, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        std::atomic<bool> whole{true};
        team.parallel_for(n, grain, [&](int64_t begin, int64_t end, int thread) {
          if (begin % grain != 0 || begin >= end || (end % grain != 0 && end != n) || thread >= threads) whole = false;
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        ASSERT_TRUE(whole) << n << " " << grain;
        for (const auto& count : seen) ASSERT_EQ(count, 1) << n << " " << grain;
      }
    }
  }
}

TEST(ThreadTeam, ParallelForCutsAboutFourChunksAThread) {
  ThreadTeam team(2, 2);
  std::atomic<int> chunks{0};
  team.parallel_for(1000, 1, [&](int64_t, int64_t, int) { ++chunks; });
  EXPECT_GE(chunks, 8);
  EXPECT_LE(chunks, 12);
  chunks = 0;
  team.parallel_for(100, 100, [&](int64_t, int64_t, int thread) { chunks += thread == 0 ? 1 : 100; });
  EXPECT_EQ(chunks, 1);
}

TEST(ThreadTeam, ForkAndJoinDoNotAllocate) {
  ThreadTeam team(2, 2);
  std::atomic<int64_t> sum{0};
  const int64_t before = allocations.load();
  for (int i = 0; i < 100; ++i) {
    team.run([&](int thread) { sum += thread; });
    team.parallel_for(100, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(sum, 100 * 101);
}

TEST(ThreadTeam, ParkedWorkersWakeUp) {
  ThreadTeam team(2, 1);  // more threads than CPUs: both sides park at once
  std::atomic<int64_t> calls{0};
  for (int i = 0; i < 300; ++i) team.run([&](int thread) { calls += thread; });
  EXPECT_EQ(calls, 300);
}

TEST(ThreadTeam, EightThreadsOnOneCpuFinish) {
  cpu_set_t old_mask, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof old_mask, &old_mask), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &old_mask)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  {
    ThreadTeam team(8, usable_cpus());  // its threads inherit the mask
    std::atomic<int64_t> sum{0};
    for (int i = 0; i < 200; ++i) team.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    EXPECT_EQ(sum, 200 * 64);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof old_mask, &old_mask), 0);
}

TEST(ThreadTeam, UnusedTeamEnds) { ThreadTeam team(4, 2); }

}  // namespace
}  // namespace lamina
