#pragma once
// Rows that the ranks of a group own in runs of given lengths.

#include <numeric>
#include <span>

#include "base/check.h"
#include "parallel/communicator.h"

namespace lamina {

/// The run of rows of `rank`.
inline RowRange run_of(std::span<const int64_t> counts, int rank) {
  const auto first = counts.begin();
  return {.begin = std::accumulate(first, first + rank, int64_t{0}), .count = counts[static_cast<size_t>(rank)]};
}

inline void check_counts(std::span<const int64_t> counts, int size, int64_t rows) {
  LAMINA_CHECK(static_cast<int>(counts.size()) == size, "one count of rows a rank");
  LAMINA_CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == rows, "the counts do not add up to the rows");
}

}  // namespace lamina
