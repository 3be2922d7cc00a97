#pragma once
// Shard arithmetic: the only place where a size is divided by a group size.
//
// Three vocabularies of size are three types. With KV replication or vocabulary padding they differ:
//   OnDisk  rows the checkpoint holds
//   Global  rows all ranks hold together, local * size
//   Local   rows of this rank

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "parallel/topology.h"

namespace lamina {

template <class Tag>
struct Extent {
  int64_t value = 0;
  constexpr explicit Extent(int64_t v = 0) : value(v) {}
  friend constexpr auto operator<=>(Extent, Extent) = default;
};
using OnDisk = Extent<struct OnDiskTag>;
using Global = Extent<struct GlobalTag>;
using Local = Extent<struct LocalTag>;

enum class ShardRule {
  kReplicate,  // every rank holds everything
  kSplit,      // equal runs; size must divide
  kHeads,      // units are query heads
  kKvHeads,    // units are KV heads: replicated when ranks outnumber them
  kVocab,      // padded inside, any group size
};

/// How one dimension of one on-disk tensor is cut: `units` of `unit` rows each (a unit is a head, else 1).
struct ShardDim {
  ShardRule rule = ShardRule::kReplicate;
  int64_t units = 0;
  int64_t unit = 1;
  const ParallelGroup* group = nullptr;

  OnDisk on_disk() const { return OnDisk(units * unit); }
};

/// One rank's share of a dimension.
struct ShardCut {
  int64_t begin = 0;  // first on-disk row
  int64_t count = 0;  // on-disk rows copied
  Local local;        // rows held: count plus padding (zeros) at the end
  Global global;      // local * group size
  int replicas = 1;   // ranks that hold the same rows
};

/// A run of units.
struct DiskRange {
  int64_t begin = 0;
  int64_t count = 0;
};

/// What a dimension of a tensor on disk counts along an axis of the matrix it belongs to: elements, words that hold several of them, or
/// blocks that share a value. Element e begins in unit e * num / den, rounded down: 1/8 for 4-bit codes in 32-bit words, 3/32 for 3-bit
/// ones, 1/128 for blocks of 128.
struct DiskDim {
  enum class Axis { kRows, kCols, kNone };
  Axis axis = Axis::kRows;
  int64_t num = 1;  // kNone: the extent, whatever the matrix
  int64_t den = 1;

  static DiskDim rows() { return {Axis::kRows}; }
  static DiskDim cols() { return {Axis::kCols}; }
  static DiskDim fixed(int64_t extent) { return {Axis::kNone, extent}; }
  /// Codes of `bits` bits in a stream of words of `word` bits.
  static DiskDim packed(Axis axis, int bits, int word) { return {axis, bits, word}; }
  /// Blocks of `size` elements; 0: one for all.
  static DiskDim blocks(Axis axis, int64_t size) { return size > 0 ? DiskDim{axis, 1, size} : fixed(1); }

  /// The units that hold elements [begin, begin + count) of the axis, counted from the tensor's first element.
  DiskRange units(int64_t begin, int64_t count) const;
};

inline constexpr int64_t kVocabPad = 64;

/// The share of group->rank; `what` names the parameter in errors, which name the group's flag and both numbers.
Result<ShardCut> cut(const ShardDim& dim, std::string_view what);

/// Heads of one rank of grouped-query attention. Errors (naming the flag) when heads % P != 0 or neither K % P nor P % K is 0.
struct HeadCounts {
  int q_heads = 0;
  int kv_heads = 0;
  int kv_replicas = 1;
};
Result<HeadCounts> local_heads(int heads, int kv_heads, const ParallelGroup& group, const ParallelGroup& kv_group);

}  // namespace lamina
