#pragma once
// Who has which KV page: free + cached + held == total, always. Requests hold private pages and lock cached ones through a RequestKv.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"
#include "kv/prefix_cache.h"
#include "scheduler/step.h"

namespace lamina {

/// A request's page table. The first `shared` pages belong to the prefix cache (locked at `node`), the rest are held.
struct RequestKv {
  std::vector<PageId> pages;
  int64_t shared = 0;
  int64_t computed = 0;                      // tokens whose K/V the pages hold
  PrefixCache::Node* node = nullptr;         // null: nothing attached
  PrefixCache::Node* copy_source = nullptr;  // locked while a copy from its page is to be made
};

class KvLedger {
 public:
  KvLedger(const KvCapacity& capacity, bool use_cache);

  int64_t pages_for(int64_t tokens) const { return (tokens + page_size_ - 1) / page_size_; }
  int page_size() const { return page_size_; }
  /// Pages that could be had now.
  int64_t obtainable() const { return pool_.free_pages() + cache_.evictable_pages(); }

  /// Locks the cached prefix of tokens[0, limit) and begins the page table with it; kv.computed is then what needs not be computed.
  /// Returns the page to copy from when the match ends inside a page: the copy goes to the next page of the table, which is the caller's
  /// to allocate before anything else. That page is locked until copied() or forgo_copy(). `whole_pages`: no such copy.
  PageCopy attach(RequestKv& kv, const CacheKey& key, std::span<const TokenId> tokens, int64_t limit, bool whole_pages);
  /// The copy that attach() returned was made.
  void copied(RequestKv& kv);
  /// The copy that attach() returned will not be made: its tokens are to be computed.
  void forgo_copy(RequestKv& kv);
  /// Appends `count` held pages, evicting cached ones when needed; false (nothing changed) when they cannot be had.
  bool allocate(RequestKv& kv, int64_t count);
  /// Hands the whole computed pages to the cache, so that others may read them; the request goes on with a lock on them.
  void share(RequestKv& kv, std::span<const TokenId> tokens);
  /// Gives everything back. `keep`: what was computed stays cached, a partly filled page too.
  void release(RequestKv& kv, std::span<const TokenId> tokens, bool keep);

  int64_t match_length(const CacheKey& key, std::span<const TokenId> tokens) const;
  /// Forgets every cached page that nobody reads.
  void flush() { cache_.flush(); }
  const PagePool& pool() const { return pool_; }
  const PrefixCache& cache() const { return cache_; }

 private:
  void insert(RequestKv& kv, std::span<const TokenId> tokens, int64_t count);

  int page_size_;
  bool use_cache_;
  PagePool pool_;
  PrefixCache cache_;
};

}  // namespace lamina
