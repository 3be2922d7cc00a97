#include "parallel/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace lamina {
namespace {

/// Calls f(communicator) on one thread a rank.
void on_ranks(int size, const std::function<void(Communicator&)>& f) {
  RankFault fault;
  const auto communicators = make_thread_communicators(size, fault);
  std::vector<std::thread> threads;
  for (const auto& communicator : communicators) threads.emplace_back([&] { f(*communicator); });
  for (std::thread& thread : threads) thread.join();
}

/// Values of rank `rank`, whose sums depend on their order.
std::vector<float> values_of(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(random) * (rank % 2 == 0 ? 1.0F : 1000.0F);
  return out;
}

struct ViewCase {
  int64_t rows, cols, stride;
};

class Collective : public testing::TestWithParam<int> {
 protected:
  const std::vector<ViewCase> cases_ = {{1, 1, 1}, {1, 100, 100}, {3, 64, 64}, {5, 33, 40}, {0, 8, 8}, {4, 0, 4}};
};

TEST_P(Collective, SumFollowsRankOrderOnEveryRank) {
  for (const ViewCase& c : cases_) {
    const size_t count = static_cast<size_t>(c.rows * c.stride);
    std::vector<float> expected = values_of(0, count);
    for (int r = 1; r < GetParam(); ++r) {
      const std::vector<float> part = values_of(r, count);
      for (size_t i = 0; i < count; ++i) expected[i] += part[i];
    }
    std::vector<std::vector<float>> got(static_cast<size_t>(GetParam()));
    on_ranks(GetParam(), [&](Communicator& communicator) {
      std::vector<float> mine = values_of(communicator.rank(), count);
      communicator.all_reduce_sum({mine.data(), c.rows, c.cols, c.stride});
      got[static_cast<size_t>(communicator.rank())] = mine;
    });
    for (int rank = 0; rank < GetParam(); ++rank) {
      const std::vector<float> untouched = values_of(rank, count);
      for (size_t i = 0; i < count; ++i) {
        const bool inside = static_cast<int64_t>(i) % c.stride < c.cols;
        const float want = inside ? expected[i] : untouched[i];
        EXPECT_EQ(std::memcmp(&got[static_cast<size_t>(rank)][i], &want, sizeof(float)), 0) << "rank " << rank << " element " << i;
      }
    }
  }
}

TEST_P(Collective, MaxIsTheLargestOfAllRanks) {
  on_ranks(GetParam(), [&](Communicator& communicator) {
    std::vector<float> mine = values_of(communicator.rank(), 50);
    communicator.all_reduce_max({mine.data(), 50, 1});
    for (size_t i = 0; i < mine.size(); ++i) {
      float want = values_of(0, 50)[i];
      for (int r = 1; r < communicator.size(); ++r) want = std::max(want, values_of(r, 50)[i]);
      EXPECT_EQ(mine[i], want);
    }
  });
}

TEST_P(Collective, GatherPutsColumnsSideBySideInRankOrder) {
  on_ranks(GetParam(), [&](Communicator& communicator) {
    const int64_t size = communicator.size();
    const std::vector<float> mine = values_of(communicator.rank(), 3 * 8);
    std::vector<float> out(static_cast<size_t>(3 * 5 * size), -7.0F);
    communicator.all_gather_columns({mine.data(), 3, 5, 8}, {out.data(), 3, 5 * size});
    for (int r = 0; r < size; ++r) {
      const std::vector<float> theirs = values_of(r, 3 * 8);
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t c = 0; c < 5; ++c) {
          EXPECT_EQ(out[static_cast<size_t>(row * 5 * size + r * 5 + c)], theirs[static_cast<size_t>(row * 8 + c)]);
        }
      }
    }
  });
}

TEST_P(Collective, ManyCallsInARowKeepRanksInStep) {
  on_ranks(GetParam(), [](Communicator& communicator) {
    float total = 1.0F;
    for (int i = 0; i < 300; ++i) {
      float value = static_cast<float>(communicator.rank() + i);
      communicator.all_reduce_sum({&value, 1, 1});
      const int n = communicator.size();
      EXPECT_EQ(value, static_cast<float>(n * i + n * (n - 1) / 2));
      communicator.all_reduce_max({&total, 1, 1});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collective, testing::Values(1, 2, 3, 4));

TEST(SelfCommunicator, GatherCopiesAndReductionsChangeNothing) {
  SelfCommunicator self;
  std::vector<float> values = values_of(3, 12);
  const std::vector<float> before = values;
  self.all_reduce_sum({values.data(), 3, 4});
  self.all_reduce_max({values.data(), 3, 4});
  self.barrier();
  EXPECT_EQ(values, before);
  std::vector<float> out(12);
  self.all_gather_columns({values.data(), 3, 4}, {out.data(), 3, 4});
  EXPECT_EQ(out, before);
}

TEST(CommunicatorDeathTest, GatherIntoTooFewColumnsIsACheck) {
  SelfCommunicator self;
  float values[4] = {};
  EXPECT_DEATH(self.all_gather_columns({values, 1, 4}, {values, 1, 3}), "shape");
}

}  // namespace
}  // namespace lamina
