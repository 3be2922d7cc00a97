#pragma once
// The additions of a collective, the same for thread ranks and MPI ranks.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace lamina {

enum class Reduction { kSum, kMax };

/// Floats that collectives combine at a time, on the stack: four parts of it stay in the first-level cache.
constexpr int64_t kReduceChunk = 512;

template <class Combine>
void accumulate_with(float* __restrict total, const float* __restrict part, int64_t count, Combine combine) {
  constexpr int64_t kBlock = 64;  // a constant trip count is what lets the compiler vectorise
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (int64_t j = 0; j < kBlock; ++j) total[i + j] = combine(total[i + j], part[i + j]);
  }
  for (; i < count; ++i) total[i] = combine(total[i], part[i]);
}

/// total[i] = total[i] + part[i], or their maximum; a NaN in either stays. The arrays must not overlap.
inline void accumulate(Reduction reduction, float* total, const float* part, int64_t count) {
  if (reduction == Reduction::kSum)
    accumulate_with(total, part, count, [](float a, float b) { return a + b; });
  else
    accumulate_with(total, part, count, [](float a, float b) { return a < b || b != b ? b : a; });
}

/// Calls write(offset, total, n) for runs of at most kReduceChunk elements that cover [0, count): total[i] is ((p0 + p1) + p2) ... of the
/// parts' elements offset + i. `write` may overwrite them in any part.
template <class Write>
void combine_in_rank_order(Reduction reduction, std::span<const float* const> parts, int64_t count, Write write) {
  float total[kReduceChunk];
  for (int64_t at = 0; at < count; at += kReduceChunk) {
    const int64_t n = std::min(kReduceChunk, count - at);
    std::memcpy(total, parts[0] + at, static_cast<size_t>(n) * sizeof(float));
    for (const float* part : parts.subspan(1)) accumulate(reduction, total, part + at, n);
    write(at, total, n);
  }
}

}  // namespace lamina
