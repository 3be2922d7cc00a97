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

/// Open addressing with a power of two of slots, at most two thirds full. Most neighbours do not join, and the table is larger than a
/// core's cache: one bit for each of 8 to 16 times as many hash values as merges answers nearly all of those.
class MergeTable {
 public:
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(merges + merges / 2 + 16)), maybe_(std::bit_ceil(8 * merges + 64) / 64) {}

  /// Adds or replaces. At most the number given to the constructor. Ids are >= 0.
  void set(TokenId left, TokenId right, Merge merge) {
    const uint64_t key = key_of(left, right), hash = hash_of(key);
    slots_[locate(key, hash)] = {key, merge};
    maybe_[hash / 64 & (maybe_.size() - 1)] |= uint64_t{1} << hash % 64;
  }
  /// kNoMerge when the two do not join.
  Merge find(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right), hash = hash_of(key);
    if ((maybe_[hash / 64 & (maybe_.size() - 1)] >> hash % 64 & 1) == 0) return kNoMerge;
    return slots_[locate(key, hash)].merge;
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Merge merge = kNoMerge;
  };
  static uint64_t key_of(TokenId left, TokenId right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }
  static uint64_t hash_of(uint64_t key) {
    const auto product = static_cast<unsigned __int128>(key) * 0x9E3779B97F4A7C15;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  size_t locate(uint64_t key, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash >> 32 & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
  std::vector<uint64_t> maybe_;  // bit `hash` modulo its size: set when some merge has that hash
};

}  // namespace lamina::text
