#pragma once
// The ledger of KV pages: every real page is free or held. Pure logic on ids.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace lamina {

/// Pages 1..capacity; page 0 is the dummy of padded rows and is never handed out.
class PagePool {
 public:
  explicit PagePool(int32_t capacity);

  int32_t capacity() const { return capacity_; }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
  int32_t held_pages() const { return capacity_ - free_pages(); }

  /// Appends `count` pages to `out`; takes none and returns false when fewer are free.
  bool allocate(int32_t count, std::vector<PageId>& out);
  /// Gives pages back; freeing a page that is not held is a CHECK.
  void release(std::span<const PageId> pages);

 private:
  int32_t capacity_;
  std::vector<PageId> free_;  // used from the back: the page freed last is taken first
  std::vector<bool> held_;
};

}  // namespace lamina
