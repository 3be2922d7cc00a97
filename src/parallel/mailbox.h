#pragma once
// Messages from one thread to another, in order.

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "parallel/wait.h"

namespace lamina {

/// A bounded queue between one thread that pushes and one that pops.
template <class T, uint32_t kSlots>
class SpscRing {
 public:
  bool empty() const { return pushed_.value() == popped_.value(); }
  bool full() const { return pushed_.value() - popped_.value() == kSlots; }
  /// Requires !full().
  void push(T&& item) {
    items_[pushed_.value() % kSlots] = std::move(item);
    pushed_.advance();
  }
  /// Requires !empty().
  T pop() {
    T item = std::move(items_[popped_.value() % kSlots]);
    popped_.advance();
    return item;
  }
  Signal& pushes() { return pushed_; }
  Signal& pops() { return popped_; }

 private:
  static_assert((kSlots & (kSlots - 1)) == 0, "the counts wrap round");
  std::array<T, kSlots> items_;
  Signal pushed_, popped_;
};

/// Copies bytes in and out; buffers go back to the sender, so that a steady state allocates nothing.
class Mailbox {
 public:
  /// Waits only while kSlots messages are under way.
  Waited send(std::span<const std::byte> bytes, const WaitRules& rules) {
    const Waited waited = wait_for(full_.pops(), sending_, rules, [&] { return !full_.full(); });
    if (waited != Waited::kDone) return waited;
    std::vector<std::byte> buffer;
    if (!spare_.empty()) buffer = spare_.pop();
    buffer.assign(bytes.begin(), bytes.end());
    full_.push(std::move(buffer));
    return Waited::kDone;
  }

  /// `take` reads the next message.
  template <class Take>
  Waited receive(const WaitRules& rules, Take take) {
    const Waited waited = wait_for(full_.pushes(), receiving_, rules, [&] { return !full_.empty(); });
    if (waited != Waited::kDone) return waited;
    std::vector<std::byte> buffer = full_.pop();
    take(std::span<const std::byte>(buffer));
    if (!spare_.full()) spare_.push(std::move(buffer));
    return Waited::kDone;
  }

 private:
  static constexpr uint32_t kSlots = 64;
  SpscRing<std::vector<std::byte>, kSlots> full_, spare_;
  Spinner sending_, receiving_;
};

}  // namespace lamina
