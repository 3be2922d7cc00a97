#include "weights/shard.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina {

namespace {

const char* unit_name(const ShardDim& dim) {
  switch (dim.rule) {
    case ShardRule::kHeads:
      return "heads";
    case ShardRule::kKvHeads:
      return "KV heads";
    case ShardRule::kVocab:
      return "vocabulary rows";
    default:
      return dim.unit == 1 ? "features" : "units";
  }
}

ShardCut whole(const ShardDim& dim, int64_t size) {
  const int64_t rows = dim.on_disk().value;
  return {.begin = 0, .count = rows, .local = Local(rows), .global = Global(rows * size), .replicas = static_cast<int>(size)};
}

Result<ShardCut> cut_even(const ShardDim& dim, int64_t size, int64_t rank, std::string_view what) {
  if (dim.units % size != 0) {
    return error(what, ": ", dim.units, " ", unit_name(dim), " do not divide over ", dim.group->size_flag, " ", size);
  }
  const int64_t rows = dim.units / size * dim.unit;
  return ShardCut{.begin = rank * rows, .count = rows, .local = Local(rows), .global = Global(rows * size)};
}

Result<ShardCut> cut_kv_heads(const ShardDim& dim, int64_t size, int64_t rank, std::string_view what) {
  if (dim.units >= size) return cut_even(dim, size, rank, what);
  if (dim.units == 0 || size % dim.units != 0) {
    return error(what, ": ", dim.units, " KV heads cannot be replicated over ", dim.group->size_flag, " ", size,
                 ": it must be a multiple of the heads or divide them");
  }
  const int64_t replicas = size / dim.units;
  return ShardCut{.begin = rank / replicas * dim.unit,
                  .count = dim.unit,
                  .local = Local(dim.unit),
                  .global = Global(dim.unit * size),
                  .replicas = static_cast<int>(replicas)};
}

ShardCut cut_vocab(const ShardDim& dim, int64_t size, int64_t rank) {
  const int64_t rows = dim.on_disk().value;
  const int64_t share = (rows + size - 1) / size;
  const int64_t local = (share + kVocabPad - 1) / kVocabPad * kVocabPad;
  const int64_t begin = std::min(rank * local, rows);
  return {.begin = begin, .count = std::min(local, rows - begin), .local = Local(local), .global = Global(local * size)};
}

}  // namespace

DiskRange DiskDim::units(int64_t begin, int64_t count) const {
  if (axis == Axis::kNone) return {0, num};
  const int64_t first = begin * num / den;
  return {first, ((begin + count) * num + den - 1) / den - first};
}

Result<ShardCut> cut(const ShardDim& dim, std::string_view what) {
  LAMINA_CHECK(dim.units >= 0 && dim.unit >= 1, "a dimension has no negative size");
  const int64_t size = dim.group == nullptr ? 1 : dim.group->size;
  const int64_t rank = dim.group == nullptr ? 0 : dim.group->rank;
  switch (dim.rule) {
    case ShardRule::kReplicate:
      break;
    case ShardRule::kSplit:
    case ShardRule::kHeads:
      return cut_even(dim, size, rank, what);
    case ShardRule::kKvHeads:
      return cut_kv_heads(dim, size, rank, what);
    case ShardRule::kVocab:
      return cut_vocab(dim, size, rank);
  }
  return whole(dim, size);
}

Result<HeadCounts> local_heads(int heads, int kv_heads, const ParallelGroup& group, const ParallelGroup& kv_group) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    return error("attention: ", heads, " heads are not a multiple of ", kv_heads, " KV heads");
  }
  LAMINA_ASSIGN(const ShardCut q, cut({ShardRule::kHeads, heads, 1, &group}, "attention"));
  LAMINA_ASSIGN(const ShardCut kv, cut({ShardRule::kKvHeads, kv_heads, 1, &kv_group}, "attention"));
  // Local query head i reads local KV head i / (q.count / kv.count); a separate KV group may put other heads there.
  bool matched = q.count % kv.count == 0;
  for (int64_t i = 0; matched && i < q.count; ++i) {
    matched = kv.begin + i * kv.count / q.count == (q.begin + i) * kv_heads / heads;
  }
  if (!matched) {
    return error("attention: group \"", kv_group.name, "\" (size ", kv_group.size, ") gives rank ", group.rank, " of \"", group.name,
                 "\" (", group.size_flag, " ", group.size, ") KV heads that its ", q.count, " of ", heads, " heads do not read");
  }
  return HeadCounts{.q_heads = static_cast<int>(q.count), .kv_heads = static_cast<int>(kv.count), .kv_replicas = kv.replicas};
}

}  // namespace lamina
