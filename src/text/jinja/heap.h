#pragma once
// The memory of one render. Nothing is freed before the render ends, so values are plain pointers and cycles do no harm.

#include <algorithm>
#include <memory_resource>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lamina::jinja {

class Heap final : public std::pmr::memory_resource {
 public:
  /// Lives as long as the heap and is never destroyed: T owns no memory of another kind.
  template <class T, class... Args>
  T* make(Args&&... args) {
    return new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
  }
  template <class T>
  std::span<const T> copy(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (items.empty()) return {};
    T* place = static_cast<T*>(allocate(items.size_bytes(), alignof(T)));
    std::uninitialized_copy(items.begin(), items.end(), place);
    return {place, items.size()};
  }
  std::string_view copy(std::string_view text) {
    const std::span<const char> bytes = copy(std::span<const char>(text));
    return {bytes.data(), bytes.size()};
  }

  size_t used() const { return used_; }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    used_ += bytes;
    return arena_.allocate(bytes, alignment);
  }
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::monotonic_buffer_resource arena_;
  size_t used_ = 0;
};

}  // namespace lamina::jinja
