#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace lamina {
namespace {

TEST(PagePool, HandsOutPagesOneToCapacityAndNeverTheDummy) {
  PagePool pool(5);
  std::vector<PageId> pages;
  ASSERT_TRUE(pool.allocate(5, pages));
  EXPECT_EQ(pages, (std::vector<PageId>{PageId(1), PageId(2), PageId(3), PageId(4), PageId(5)}));
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_EQ(pool.held_pages(), 5);
}

TEST(PagePool, TakesNothingWhenTooFewAreFree) {
  PagePool pool(3);
  std::vector<PageId> pages;
  ASSERT_TRUE(pool.allocate(2, pages));
  EXPECT_FALSE(pool.allocate(2, pages));
  EXPECT_EQ(pages.size(), 2U);
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_TRUE(pool.allocate(0, pages));
}

TEST(PagePool, ReusesThePageFreedLast) {
  PagePool pool(8);
  std::vector<PageId> pages, again;
  ASSERT_TRUE(pool.allocate(4, pages));
  const PageId freed = pages[1];
  pool.release({&freed, 1});
  ASSERT_TRUE(pool.allocate(1, again));
  EXPECT_EQ(again[0], freed);
}

TEST(PagePool, LedgerStaysExactUnderRandomUse) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    std::mt19937 random(seed);
    PagePool pool(97);
    std::vector<std::vector<PageId>> holders;
    int32_t held = 0;
    for (int step = 0; step < 20000; ++step) {
      if (random() % 2 == 0 || holders.empty()) {
        const auto count = static_cast<int32_t>(random() % 12);
        std::vector<PageId> pages;
        const bool fits = count <= pool.capacity() - held;
        ASSERT_EQ(pool.allocate(count, pages), fits) << "seed " << seed << " step " << step;
        ASSERT_EQ(pages.size(), fits ? static_cast<size_t>(count) : 0U);
        held += static_cast<int32_t>(pages.size());
        holders.push_back(std::move(pages));
      } else {
        std::swap(holders[random() % holders.size()], holders.back());
        held -= static_cast<int32_t>(holders.back().size());
        pool.release(holders.back());
        holders.pop_back();
      }
      ASSERT_EQ(pool.held_pages(), held);
      ASSERT_EQ(pool.free_pages() + pool.held_pages(), pool.capacity());
    }
    std::set<PageId> distinct;
    for (const auto& pages : holders) distinct.insert(pages.begin(), pages.end());
    EXPECT_EQ(distinct.size(), static_cast<size_t>(held)) << "a page has two holders, seed " << seed;
    EXPECT_TRUE(std::all_of(distinct.begin(), distinct.end(), [](PageId page) { return page.value >= 1 && page.value <= 97; }));
  }
}

TEST(PagePoolDeathTest, RefusesPagesThatAreNotHeld) {
  PagePool pool(4);
  std::vector<PageId> pages;
  ASSERT_TRUE(pool.allocate(1, pages));
  pool.release(pages);
  EXPECT_DEATH(pool.release(pages), "freed twice");
  const PageId dummy(0), beyond(5);
  EXPECT_DEATH(pool.release({&dummy, 1}), "outside the pool");
  EXPECT_DEATH(pool.release({&beyond, 1}), "outside the pool");
}

}  // namespace
}  // namespace lamina
