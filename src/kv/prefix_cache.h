#pragma once
// Which pages hold the K/V of which token sequences: a tree of pages, pure logic on ids.
//
// A node is one page under its parent: `tokens` (page_size of them, fewer only in a leaf) that follow the path above it. Requests that read
// a path lock its deepest node, which protects everything above. A page of the tree is cached; it is evictable when no lock protects it.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/ids.h"
#include "kv/page_pool.h"

namespace lamina {

/// Sequences with different keys never share a page: what K/V depend on besides the tokens.
struct CacheKey {
  int64_t rope_length = 0;
  std::string salt;
  friend auto operator<=>(const CacheKey&, const CacheKey&) = default;
};

class PrefixCache {
 public:
  class Node;

  /// `pool` outlives the cache; evicted and duplicate pages go back to it.
  PrefixCache(PagePool& pool, int page_size);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Match {
    Node* node = nullptr;          // deepest whole page; the key's root when none matches
    std::vector<PageId> pages;     // whole pages, shared by reading them
    Node* partial_node = nullptr;  // of `partial`; null when partial_tokens is 0
    PageId partial;                // a page whose first `partial_tokens` tokens match too; to be copied
    int64_t partial_tokens = 0;
    int64_t tokens(int page_size) const { return static_cast<int64_t>(pages.size()) * page_size + partial_tokens; }
  };
  /// The longest cached prefix of `tokens`. Refreshes its age. Not locked: lock() before anything else is done with the cache.
  Match match(const CacheKey& key, std::span<const TokenId> tokens);
  /// Length of the longest cached prefix; changes nothing.
  int64_t match_length(const CacheKey& key, std::span<const TokenId> tokens) const;

  /// A lock counts; `node` may be a root.
  void lock(Node* node);
  void unlock(Node* node);

  /// Gives the pages of `tokens` (they begin after the path of `node`, at a page border) to the tree; the last page may be partly filled.
  /// A page whose tokens are there already goes back to the pool, and `pages` names the tree's instead. Returns the deepest whole page's
  /// node; the caller moves its lock there. `pages` that end partly filled keep only the whole ones.
  Node* insert(Node* node, std::span<const TokenId> tokens, std::vector<PageId>& pages);

  /// Evicts least recently used leaves until the pool has `pages` free; false when the evictable ones do not suffice (then none is
  /// evicted).
  bool make_room(int64_t pages);
  /// Evicts everything that is not locked.
  void flush();

  int64_t cached_pages() const { return cached_; }
  int64_t evictable_pages() const { return evictable_; }
  int64_t evicted_tokens() const { return evicted_tokens_; }

 private:
  Node* root(const CacheKey& key);
  void touch(Node* node);
  void evict(Node* leaf);
  /// Enters or leaves the set of leaves that can be evicted, as its state says.
  void update_leaf(Node* node);

  PagePool& pool_;
  int page_size_;
  std::map<CacheKey, std::unique_ptr<Node>> roots_;
  struct Older {
    bool operator()(const Node* a, const Node* b) const;
  };
  std::set<Node*, Older> leaves_;  // evictable, oldest first
  int64_t clock_ = 0;
  int64_t cached_ = 0;
  int64_t evictable_ = 0;
  int64_t evicted_tokens_ = 0;
};

}  // namespace lamina
