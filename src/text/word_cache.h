#pragma once
// Remembers the ids of short words: natural text repeats them.

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "api/types.h"

namespace lamina::text {

/// Direct-mapped: one cache line a word, a newer word replaces an older one. 1 MiB.
class WordCache {
 public:
  WordCache() : slots_(kSlots) {}

  static bool fits(std::string_view word) { return word.size() <= kMaxBytes; }
  /// The ids stored for `word` (which fits, and is not empty), or an empty span. `hash` is hash_bytes(word).
  std::span<const TokenId> find(std::string_view word, uint64_t hash) const {
    const Slot& slot = slots_[hash % kSlots];
    if (slot.size != word.size() || std::memcmp(slot.bytes.data(), word.data(), word.size()) != 0) return {};
    return {slot.ids.data(), slot.count};
  }
  /// Stores when the ids fit; an empty list is not stored.
  void store(std::string_view word, uint64_t hash, std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return;
    Slot& slot = slots_[hash % kSlots];
    slot.size = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(ids.size());
    std::memcpy(slot.bytes.data(), word.data(), word.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size() * sizeof(TokenId));
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 14, kMaxBytes = 30, kMaxIds = 8;
  struct alignas(64) Slot {
    uint8_t size = 0, count = 0;
    std::array<char, kMaxBytes> bytes;
    std::array<TokenId, kMaxIds> ids;
  };
  static_assert(sizeof(Slot) == 64);
  std::vector<Slot> slots_;
};

}  // namespace lamina::text
