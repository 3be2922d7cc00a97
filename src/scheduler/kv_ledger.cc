#include "scheduler/kv_ledger.h"

#include <algorithm>
#include <utility>

namespace lamina {

KvLedger::KvLedger(const KvCapacity& capacity, bool use_cache)
    : page_size_(capacity.page_size), use_cache_(use_cache), pool_(capacity.pages), cache_(pool_, capacity.page_size) {}

PageCopy KvLedger::attach(RequestKv& kv, const CacheKey& key, std::span<const TokenId> tokens, int64_t limit, bool whole_pages) {
  LAMINA_CHECK(kv.node == nullptr && kv.pages.empty(), "a request that has pages already");
  const size_t readable = use_cache_ && limit > 0 ? static_cast<size_t>(limit) : 0;
  PrefixCache::Match match = cache_.match(key, tokens.first(readable));
  cache_.lock(match.node);
  kv.node = match.node;
  kv.shared = static_cast<int64_t>(match.pages.size());
  kv.pages.insert(kv.pages.end(), match.pages.begin(), match.pages.end());
  kv.computed = kv.shared * page_size_;
  if (whole_pages || match.partial_tokens == 0) return {};
  kv.computed += match.partial_tokens;
  kv.copy_source = match.partial_node;
  cache_.lock(kv.copy_source);
  return {match.partial, PageId(), checked_cast<int32_t>(match.partial_tokens)};
}

void KvLedger::copied(RequestKv& kv) {
  if (kv.copy_source != nullptr) cache_.unlock(std::exchange(kv.copy_source, nullptr));
}

void KvLedger::forgo_copy(RequestKv& kv) {
  copied(kv);
  kv.computed = kv.shared * page_size_;
}

bool KvLedger::allocate(RequestKv& kv, int64_t count) {
  return cache_.make_room(count) && pool_.allocate(checked_cast<int32_t>(count), kv.pages);
}

/// Moves the pages of tokens [shared pages, count) to the tree.
void KvLedger::insert(RequestKv& kv, std::span<const TokenId> tokens, int64_t count) {
  const int64_t begin = kv.shared * page_size_;
  const auto first = kv.pages.begin() + kv.shared;
  std::vector<PageId> pages(first, first + pages_for(count) - kv.shared);
  PrefixCache::Node* deepest =
      cache_.insert(kv.node, tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count - begin)), pages);
  cache_.lock(deepest);
  cache_.unlock(kv.node);
  kv.node = deepest;
  std::copy(pages.begin(), pages.end(), first);
  kv.shared += static_cast<int64_t>(pages.size());
}

void KvLedger::share(RequestKv& kv, std::span<const TokenId> tokens) {
  const int64_t whole = kv.computed / page_size_ * page_size_;
  if (use_cache_ && whole > kv.shared * page_size_) insert(kv, tokens, whole);
}

void KvLedger::release(RequestKv& kv, std::span<const TokenId> tokens, bool keep) {
  if (kv.node == nullptr) return;
  int64_t given = kv.shared;
  if (use_cache_ && keep && kv.computed > kv.shared * page_size_) {
    given = pages_for(kv.computed);
    insert(kv, tokens, kv.computed);
  }
  pool_.release(std::span(kv.pages).subspan(static_cast<size_t>(given)));
  copied(kv);
  cache_.unlock(kv.node);
  kv.pages.clear();
  kv.shared = kv.computed = 0;
  kv.node = nullptr;
}

int64_t KvLedger::match_length(const CacheKey& key, std::span<const TokenId> tokens) const {
  return use_cache_ ? cache_.match_length(key, tokens) : 0;
}

}  // namespace lamina
