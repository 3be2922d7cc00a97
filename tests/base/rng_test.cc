#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/clock.h"

namespace lamina {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with the paper's library (Random123, kat_vectors, philox4x32 10).
TEST(Rng, PhiloxMatchesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, UniformIsAPureFunctionOfItsThreeKeys) {
  std::set<double> values;
  for (uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (uint64_t stream : {0ULL, 1ULL, 1ULL << 32}) {
      for (uint64_t index : {0ULL, 1ULL, 1ULL << 32}) {
        EXPECT_EQ(uniform(seed, stream, index), uniform(seed, stream, index));
        values.insert(uniform(seed, stream, index));
      }
    }
  }
  EXPECT_EQ(values.size(), 27U);
}

TEST(Rng, UniformFillsTheUnitIntervalEvenly) {
  constexpr int kDraws = 100000, kBins = 100;
  int bins[kBins] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double u = uniform(42, 0, static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<int>(u * kBins)];
  }
  double chi2 = 0;
  for (int count : bins) chi2 += std::pow(count - kDraws / kBins, 2) / (kDraws / kBins);
  EXPECT_LT(chi2, 99 + 5 * std::sqrt(2.0 * 99));  // five standard deviations above the mean of chi-square with 99 degrees of freedom
}

TEST(Rng, FreshSeedsDiffer) { EXPECT_NE(fresh_seed(), fresh_seed()); }

TEST(Clock, SteadyClockDoesNotGoBack) {
  const SteadyClock clock;
  const int64_t before = clock.now_ns();
  EXPECT_GE(clock.now_ns(), before);
}

}  // namespace
}  // namespace lamina
