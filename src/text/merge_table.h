#pragma once
// Which neighbours a BPE joins: (left id, right id) -> (rank, joined id).

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/types.h"

namespace lamina::text {

struct Merge {
  uint32_t rank;  // the lowest is done first
  TokenId id;
};
inline constexpr Merge kNoMerge{UINT32_MAX, -1};

/// Open addressing with a power of two of slots, at most two thirds full.
class MergeTable {
 public:
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(merges + merges / 2 + 16)) {}

  /// Adds or replaces. At most the number given to the constructor. Ids are >= 0.
  void set(TokenId left, TokenId right, Merge merge) {
    const uint64_t key = key_of(left, right);
    slots_[locate(key)] = {key, merge};
  }
  /// kNoMerge when the two do not join.
  Merge find(TokenId left, TokenId right) const { return slots_[locate(key_of(left, right))].merge; }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Merge merge = kNoMerge;
  };
  static uint64_t key_of(TokenId left, TokenId right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }
  size_t locate(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (key * 0x9E3779B97F4A7C15 >> 24) & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace lamina::text
