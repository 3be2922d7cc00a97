#include "parallel/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/strings.h"
#include "tests/parallel/communicator_suite.h"

namespace lamina {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Calls f(communicator) on one thread a rank.
void on_ranks(int size, RankFault& fault, const CommunicatorOptions& options, const std::function<void(Communicator&)>& f) {
  const auto communicators = make_thread_communicators(size, fault, options);
  std::vector<std::thread> threads;
  for (const auto& communicator : communicators) threads.emplace_back([&] { f(*communicator); });
  for (std::thread& thread : threads) thread.join();
}

class ThreadRanks : public testing::TestWithParam<std::tuple<int, suite::Check>> {};

TEST_P(ThreadRanks, Pass) {
  const auto& [size, check] = GetParam();
  for (const int cpus : {1, 64}) {  // ranks that park at once, ranks that spin first
    RankFault fault;
    on_ranks(size, fault, {.cpus = cpus}, [&](Communicator& c) { EXPECT_EQ(check.run(c), ""); });
    EXPECT_EQ(fault.message(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Suite, ThreadRanks, testing::Combine(testing::Range(1, 9), testing::ValuesIn(suite::checks())),
                         [](const auto& c) { return cat(std::get<1>(c.param).name, std::get<0>(c.param)); });

TEST(SelfCommunicator, PassesTheSuite) {
  SelfCommunicator self;
  for (const suite::Check& check : suite::checks()) {
    if (std::string_view(check.name) != "ReceivedBytesAreCounted") {
      EXPECT_EQ(check.run(self), "") << check.name;
    }
  }
  EXPECT_EQ(self.bytes_received(), 0U);
}

TEST(ThreadRanks, ABarrierIsPassedWhenAllHaveCome) {
  constexpr int kSize = 3, kRounds = 500;
  RankFault fault;
  std::atomic<int> arrived{0};
  on_ranks(kSize, fault, {}, [&](Communicator& c) {
    for (int round = 1; round <= kRounds; ++round) {
      arrived.fetch_add(1);
      c.barrier();
      EXPECT_GE(arrived.load(), kSize * round);
      c.barrier();
      EXPECT_LE(arrived.load(), kSize * round + kSize - 1);
    }
  });
}

/// What is said when ranks 0 and 2 of four come and wait 50 ms for the others.
std::string late_message(int cpus) {
  RankFault fault;
  on_ranks(4, fault, {.deadline = 50ms, .cpus = cpus}, [&](Communicator& c) {
    float value = 1;
    if (c.rank() % 2 == 0) c.all_reduce_sum({&value, 1, 1});
  });
  return fault.message();
}

TEST(ThreadRanks, AMissedDeadlineNamesWhoDidNotComeToWhat) {
  for (const int cpus : {1, 64}) {
    // One of the two may be put off for so long that it is late as well, and named: then they wait once more.
    const auto end = std::chrono::steady_clock::now() + 60s;
    std::string message = late_message(cpus);
    while (message.find("ranks 1, 3 did") == std::string::npos && std::chrono::steady_clock::now() < end) message = late_message(cpus);
    EXPECT_THAT(message, testing::AllOf(HasSubstr("ranks 1, 3 did"), HasSubstr("all_reduce_sum"), HasSubstr("50 ms")));
  }
}

TEST(ThreadRanks, AMissingMessageNamesThePeer) {
  RankFault fault;
  on_ranks(3, fault, {.deadline = 50ms}, [&](Communicator& c) {
    std::byte byte{};
    if (c.rank() == 1) c.receive({&byte, 1}, 2);
  });
  EXPECT_THAT(fault.message(), testing::AllOf(HasSubstr("rank 2"), HasSubstr("send")));
}

TEST(ThreadRanks, AFaultEndsTheWaitsOfAllAndEveryLaterCall) {
  for (const int cpus : {1, 64}) {
    RankFault fault;
    on_ranks(4, fault, {.deadline = 60s, .cpus = cpus}, [&](Communicator& c) {
      std::vector<float> values(64, 1.0F);
      const F32View view(values.data(), 8, 8);
      std::byte byte{};
      if (c.rank() == 3) {
        fault.raise("rank 3: out of memory");
        fault.raise("a later reason");
      } else if (c.rank() == 0) {
        c.receive({&byte, 1}, 1);
      } else {
        c.barrier();
      }
      const std::vector<int64_t> counts = {2, 2, 2, 2};
      c.all_reduce_sum(view);
      c.reduce_scatter_rows(view, counts);
      c.all_gather_rows({.data = values.data(), .rows = 8, .cols = 8, .stride = 8}, counts);
      c.broadcast({&byte, 1}, 0);
      c.receive({&byte, 1}, (c.rank() + 1) % 4);
      EXPECT_TRUE(c.publish(&byte).empty());
    });
    EXPECT_EQ(fault.message(), "rank 3: out of memory");
  }
}

TEST(ThreadRanks, ASenderIsHeldBackOnlyByManyUnreceivedMessages) {
  RankFault fault;
  on_ranks(2, fault, {.deadline = 50ms}, [&](Communicator& c) {
    if (c.rank() == 1) return;
    const std::byte byte{};
    for (int i = 0; i < 32; ++i) c.send({&byte, 1}, 1);
    EXPECT_FALSE(fault.raised());
    for (int i = 0; i < 1000; ++i) c.send({&byte, 1}, 1);
  });
  EXPECT_THAT(fault.message(), testing::AllOf(HasSubstr("rank 1"), HasSubstr("receive")));
}

TEST(CommunicatorDeathTest, ViewsOfAnotherShapeAreACheck) {
  SelfCommunicator self;
  float values[4] = {};
  std::byte byte{};
  EXPECT_DEATH(self.all_gather_columns({values, 1, 4}, {values, 1, 3}), "shape");
  EXPECT_DEATH(self.send({&byte, 1}, 0), "nobody to send to");
  EXPECT_DEATH(self.receive({&byte, 1}, 0), "nobody to receive from");
  EXPECT_DEATH(static_cast<void>(row_share(3, 2, 2)), "share");
}

TEST(RowShare, CoversTheRowsInOrderAndDiffersByOneAtMost) {
  for (int size = 1; size <= 8; ++size) {
    for (int64_t rows = 0; rows <= 40; ++rows) {
      int64_t at = 0;
      for (int rank = 0; rank < size; ++rank) {
        const RowRange share = row_share(rows, size, rank);
        EXPECT_EQ(share.begin, at);
        EXPECT_GE(share.count, rows / size);
        EXPECT_LE(share.count, (rows + size - 1) / size);
        at = share.end();
      }
      EXPECT_EQ(at, rows);
    }
  }
}

}  // namespace
}  // namespace lamina
