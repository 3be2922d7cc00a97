#include "kv/prefix_cache.h"

#include <algorithm>

namespace lamina {

class PrefixCache::Node {
 public:
  Node* parent = nullptr;  // null for a root
  std::vector<TokenId> tokens;
  PageId page;
  int locks = 0;
  int64_t age = 0;
  bool listed = false;  // in leaves_
  std::map<std::vector<TokenId>, std::unique_ptr<Node>, std::less<>> children;
};

namespace {

size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

bool PrefixCache::Older::operator()(const Node* a, const Node* b) const { return a->age != b->age ? a->age < b->age : a->page < b->page; }

PrefixCache::PrefixCache(PagePool& pool, int page_size) : pool_(pool), page_size_(page_size) {}
PrefixCache::~PrefixCache() = default;

PrefixCache::Node* PrefixCache::root(const CacheKey& key) {
  constexpr size_t kManyRoots = 4096;  // one-time salts must not add up
  if (roots_.size() >= kManyRoots)
    std::erase_if(roots_, [](const auto& item) { return item.second->children.empty() && item.second->locks == 0; });
  std::unique_ptr<Node>& node = roots_[key];
  if (!node) node = std::make_unique<Node>();
  return node.get();
}

void PrefixCache::update_leaf(Node* node) {
  const bool evictable = node->parent != nullptr && node->children.empty() && node->locks == 0;
  if (evictable == node->listed) return;
  node->listed = evictable;
  if (evictable)
    leaves_.insert(node);
  else
    leaves_.erase(node);
}

void PrefixCache::touch(Node* node) {
  ++clock_;
  for (; node->parent != nullptr; node = node->parent) {
    if (node->listed) leaves_.erase(node);
    node->age = clock_;
    if (node->listed) leaves_.insert(node);
  }
}

namespace {

/// The child with the longest common prefix: a neighbour of where `tokens` would stand.
template <class Children>
auto nearest_child(Children& children, std::span<const TokenId> tokens, size_t& common) {
  common = 0;
  auto best = children.end();
  const std::vector<TokenId> wanted(tokens.begin(), tokens.end());
  const auto after = children.lower_bound(wanted);
  const auto consider = [&](auto child) {
    const size_t n = common_prefix(child->first, tokens);
    if (n > common) common = n, best = child;
  };
  if (after != children.end()) consider(after);
  if (after != children.begin()) consider(std::prev(after));
  return best;
}

}  // namespace

PrefixCache::Match PrefixCache::match(const CacheKey& key, std::span<const TokenId> tokens) {
  Match out;
  out.node = root(key);
  Node* deepest = out.node;
  while (!tokens.empty()) {
    const size_t page = std::min(tokens.size(), static_cast<size_t>(page_size_));
    size_t common = 0;
    const auto child = nearest_child(out.node->children, tokens.first(page), common);
    if (common == 0) break;
    deepest = child->second.get();
    if (common < static_cast<size_t>(page_size_)) {
      out.partial_node = deepest, out.partial = deepest->page, out.partial_tokens = static_cast<int64_t>(common);
      break;
    }
    out.node = deepest;
    out.pages.push_back(deepest->page);
    tokens = tokens.subspan(common);
  }
  touch(deepest);
  return out;
}

int64_t PrefixCache::match_length(const CacheKey& key, std::span<const TokenId> tokens) const {
  const auto found = roots_.find(key);
  if (found == roots_.end()) return 0;
  const Node* node = found->second.get();
  size_t matched = 0;
  while (matched < tokens.size()) {
    const size_t page = std::min(tokens.size() - matched, static_cast<size_t>(page_size_));
    size_t common = 0;
    const auto child = nearest_child(node->children, tokens.subspan(matched, page), common);
    matched += common;
    if (common < static_cast<size_t>(page_size_)) break;
    node = child->second.get();
  }
  return static_cast<int64_t>(matched);
}

void PrefixCache::lock(Node* node) {
  for (; node->parent != nullptr; node = node->parent) {
    if (node->locks++ == 0) --evictable_;
    update_leaf(node);
  }
  ++node->locks;
}

void PrefixCache::unlock(Node* node) {
  for (; node->parent != nullptr; node = node->parent) {
    LAMINA_CHECK(node->locks > 0, "a cached page was unlocked once too often");
    if (--node->locks == 0) ++evictable_;
    update_leaf(node);
  }
  LAMINA_CHECK(node->locks > 0, "a cached prefix was unlocked once too often");
  --node->locks;
}

PrefixCache::Node* PrefixCache::insert(Node* node, std::span<const TokenId> tokens, std::vector<PageId>& pages) {
  size_t index = 0, whole = 0;
  Node* deepest = node;
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), static_cast<size_t>(page_size_));
    const std::span<const TokenId> block = tokens.first(count);
    tokens = tokens.subspan(count);
    size_t common = 0;
    const auto found = nearest_child(deepest->children, block, common);
    const PageId mine = pages[index];
    Node* at = common == count ? found->second.get() : nullptr;
    if (at != nullptr) {  // there already, perhaps as the beginning of a fuller page
      if (at->page != mine) pool_.release(std::span(&mine, 1));
    } else {
      auto fresh = std::make_unique<Node>();
      fresh->parent = deepest, fresh->page = mine, fresh->tokens.assign(block.begin(), block.end());
      at = fresh.get();
      deepest->children.emplace(at->tokens, std::move(fresh));
      ++cached_, ++evictable_;
      update_leaf(deepest);
      update_leaf(at);
    }
    if (count == static_cast<size_t>(page_size_)) {
      pages[index] = at->page, ++whole;
      deepest = at;
    } else {
      touch(at);
    }
    ++index;
  }
  LAMINA_CHECK(index == pages.size(), "more pages than tokens");
  pages.resize(whole);
  touch(deepest);
  return deepest;
}

void PrefixCache::evict(Node* leaf) {
  leaves_.erase(leaf);
  leaf->listed = false;
  pool_.release(std::span(&leaf->page, 1));
  --cached_, --evictable_;
  evicted_tokens_ += static_cast<int64_t>(leaf->tokens.size());
  Node* parent = leaf->parent;
  parent->children.erase(parent->children.find(leaf->tokens));
  update_leaf(parent);
}

bool PrefixCache::make_room(int64_t pages) {
  if (pool_.free_pages() + evictable_ < pages) return false;
  while (pool_.free_pages() < pages) evict(*leaves_.begin());
  return true;
}

void PrefixCache::flush() {
  while (!leaves_.empty()) evict(*leaves_.begin());
}

}  // namespace lamina
