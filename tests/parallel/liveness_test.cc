#include "parallel/liveness.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace lamina {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Linked processes of a run, here all in one.
struct LinkedRanks {
  explicit LinkedRanks(int size, bool one_machine = true) : faults(static_cast<size_t>(size)) {
    for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<Liveness>(faults[static_cast<size_t>(r)], r, size));
    const LinkAddress address = ranks[0]->listen(one_machine).value();
    std::vector<std::thread> threads;
    for (const auto& rank : ranks) threads.emplace_back([&] { EXPECT_TRUE(rank->link(address, 60s).ok()); });
    for (std::thread& thread : threads) thread.join();
  }
  /// What rank `rank` learned, once it did.
  std::string fault_of(int rank) {
    const RankFault& fault = faults[static_cast<size_t>(rank)];
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!fault.raised() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return fault.message();
  }

  std::vector<RankFault> faults;
  std::vector<std::unique_ptr<Liveness>> ranks;
};

TEST(Liveness, ARankThatIsGoneIsAFaultOnAllOthers) {
  for (const bool one_machine : {true, false}) {
    LinkedRanks linked(4, one_machine);
    linked.ranks[2].reset();
    for (const int rank : {0, 1, 3}) EXPECT_EQ(linked.fault_of(rank), "rank 2 of 4 is gone");
  }
}

TEST(Liveness, AllOthersSeeThatRankZeroIsGone) {
  LinkedRanks linked(3);
  linked.ranks[0].reset();
  for (const int rank : {1, 2}) EXPECT_EQ(linked.fault_of(rank), "rank 0 of 3 is gone");
}

TEST(Liveness, AFaultReachesAllWithItsMessage) {
  for (const int raiser : {0, 2}) {
    LinkedRanks linked(3);
    linked.faults[static_cast<size_t>(raiser)].raise("out of memory");
    linked.ranks[static_cast<size_t>(raiser)].reset();  // at once: the message still goes out first
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(linked.fault_of(rank), "out of memory");
  }
}

TEST(Liveness, AnOrderlyEndIsNoFault) {
  LinkedRanks linked(3);
  for (const int rank : {1, 0, 2}) {
    linked.ranks[static_cast<size_t>(rank)]->end();
    linked.ranks[static_cast<size_t>(rank)].reset();
  }
  for (const RankFault& fault : linked.faults) EXPECT_EQ(fault.message(), "");
}

TEST(Liveness, WhoDoesNotConnectIsNamed) {
  RankFault fault;
  Liveness root(fault, 0, 3);
  const LinkAddress address = root.listen(true).value();
  EXPECT_THAT(root.link(address, 50ms).error().message, HasSubstr("ranks 1, 2 did not connect"));
}

TEST(Liveness, AStrangerIsNotTakenForARank) {
  RankFault fault, other;
  Liveness root(fault, 0, 2), rank(other, 1, 2);
  const LinkAddress address = root.listen(true).value();
  const int stranger = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(address.port), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(stranger, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  ASSERT_GT(write(stranger, "GET / HTTP/1.1\r\n\r\n", 18), 0);
  std::thread joins([&] { EXPECT_TRUE(rank.link(address, 60s).ok()); });
  EXPECT_TRUE(root.link(address, 60s).ok());
  joins.join();
  close(stranger);
  EXPECT_FALSE(fault.raised());
  rank.end();
}

TEST(Liveness, WithoutAnAddressOfRankZeroThereIsAnError) {
  RankFault fault;
  Liveness rank(fault, 1, 2);
  EXPECT_THAT(rank.link({}, 60s).error().message, HasSubstr("no address"));
  EXPECT_THAT(rank.link({.port = 1, .count = 1, .hosts = {htonl(INADDR_LOOPBACK)}}, 50ms).error().message,
              HasSubstr("cannot connect to rank 0"));
}

}  // namespace
}  // namespace lamina
