#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lamina {
namespace {

std::vector<TokenId> tokens(std::initializer_list<TokenId> ids) { return ids; }

/// A cache over a pool, with pages allocated for what is inserted.
struct Fixture {
  explicit Fixture(int32_t pages, int page_size) : pool(pages), size(page_size), cache(pool, page_size) {}

  PrefixCache::Node* insert(const CacheKey& key, const std::vector<TokenId>& ids) {
    PrefixCache::Node* root = cache.match(key, {}).node;
    std::vector<PageId> pages;
    EXPECT_TRUE(pool.allocate(static_cast<int32_t>((ids.size() + static_cast<size_t>(size) - 1) / static_cast<size_t>(size)), pages));
    return cache.insert(root, ids, pages);
  }
  int64_t matched(const CacheKey& key, const std::vector<TokenId>& ids) { return cache.match(key, ids).tokens(size); }

  PagePool pool;
  int size;
  PrefixCache cache;
};

TEST(PrefixCache, MatchesByTokenAlsoInsideAPage) {
  Fixture f(10, 4);
  f.insert({}, tokens({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(f.matched({}, tokens({1, 2, 3, 4, 5, 6, 7})), 6);
  EXPECT_EQ(f.matched({}, tokens({1, 2, 3, 9})), 3);
  EXPECT_EQ(f.matched({}, tokens({9, 2, 3})), 0);
  const PrefixCache::Match match = f.cache.match({}, tokens({1, 2, 3, 4, 5, 9}));
  EXPECT_EQ(match.pages.size(), 1U);
  EXPECT_EQ(match.partial_tokens, 1);
}

TEST(PrefixCache, KeysDoNotShare) {
  Fixture f(10, 4);
  f.insert({0, "a"}, tokens({1, 2, 3, 4}));
  EXPECT_EQ(f.matched({0, "b"}, tokens({1, 2, 3, 4})), 0);
  EXPECT_EQ(f.matched({1, "a"}, tokens({1, 2, 3, 4})), 0);
  EXPECT_EQ(f.matched({0, "a"}, tokens({1, 2, 3, 4})), 4);
}

TEST(PrefixCache, DuplicatePagesGoBackToThePool) {
  Fixture f(10, 2);
  f.insert({}, tokens({1, 2, 3, 4}));
  f.insert({}, tokens({1, 2, 3, 4, 5}));
  EXPECT_EQ(f.cache.cached_pages(), 3);
  EXPECT_EQ(f.pool.free_pages(), 7);
}

TEST(PrefixCache, LockedPathsAreNotEvictedAndTheOldestLeafGoesFirst) {
  Fixture f(4, 1);
  PrefixCache::Node* kept = f.insert({}, tokens({1, 2}));
  f.cache.lock(kept);
  f.insert({}, tokens({7}));
  f.insert({}, tokens({8}));
  f.matched({}, tokens({7}));
  EXPECT_EQ(f.cache.evictable_pages(), 2);
  EXPECT_TRUE(f.cache.make_room(1));
  EXPECT_EQ(f.matched({}, tokens({8})), 0);
  EXPECT_EQ(f.matched({}, tokens({7})), 1);
  EXPECT_FALSE(f.cache.make_room(3));
  EXPECT_EQ(f.matched({}, tokens({7})), 1) << "nothing is evicted in vain";
  f.cache.unlock(kept);
  EXPECT_TRUE(f.cache.make_room(4));
  EXPECT_EQ(f.cache.cached_pages(), 0);
}

TEST(PrefixCacheDeathTest, UnlockingTooOftenDies) {
  Fixture f(4, 1);
  PrefixCache::Node* node = f.insert({}, tokens({1}));
  EXPECT_DEATH(f.cache.unlock(node), "once too often");
}

/// The longest common prefix with anything inserted and not evicted; here nothing is evicted.
TEST(PrefixCache, AgreesWithAListOfSequencesOnRandomLoads) {
  std::mt19937 random(3);
  for (const int page_size : {1, 3, 4}) {
    Fixture f(20000, page_size);
    std::vector<std::vector<TokenId>> inserted;
    for (int round = 0; round < 600; ++round) {
      std::vector<TokenId> ids(1 + random() % 14);
      for (TokenId& id : ids) id = static_cast<TokenId>(random() % 2);
      int64_t longest = 0;
      for (const std::vector<TokenId>& other : inserted) {
        const auto [a, b] = std::mismatch(ids.begin(), ids.end(), other.begin(), other.end());
        longest = std::max<int64_t>(longest, a - ids.begin());
      }
      EXPECT_EQ(f.cache.match_length({}, ids), longest);
      EXPECT_EQ(f.matched({}, ids), longest);
      f.insert({}, ids);
      inserted.push_back(ids);
      EXPECT_EQ(f.pool.free_pages() + f.cache.cached_pages(), f.pool.capacity());
    }
    f.cache.flush();
    EXPECT_EQ(f.pool.free_pages(), f.pool.capacity());
  }
}

}  // namespace
}  // namespace lamina
