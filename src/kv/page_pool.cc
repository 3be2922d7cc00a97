#include "kv/page_pool.h"

#include "base/check.h"

namespace lamina {

PagePool::PagePool(int32_t capacity) : capacity_(capacity), held_(static_cast<size_t>(capacity) + 1, false) {
  LAMINA_CHECK(capacity >= 0, "a pool of negative size");
  free_.reserve(static_cast<size_t>(capacity));
  for (int32_t page = capacity; page >= 1; --page) free_.push_back(PageId(page));
}

bool PagePool::allocate(int32_t count, std::vector<PageId>& out) {
  LAMINA_CHECK(count >= 0, "negative number of pages");
  if (count > free_pages()) return false;
  for (int32_t i = 0; i < count; ++i) {
    const PageId page = free_.back();
    free_.pop_back();
    held_[static_cast<size_t>(page.value)] = true;
    out.push_back(page);
  }
  return true;
}

void PagePool::release(std::span<const PageId> pages) {
  for (const PageId page : pages) {
    LAMINA_CHECK(page.value >= 1 && page.value <= capacity_, "a page outside the pool");
    LAMINA_CHECK(held_[static_cast<size_t>(page.value)], "a page freed twice");
    held_[static_cast<size_t>(page.value)] = false;
    free_.push_back(page);
  }
}

}  // namespace lamina
