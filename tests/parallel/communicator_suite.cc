#include "tests/parallel/communicator_suite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/strings.h"

namespace lamina::suite {
namespace {

struct Shape {
  int64_t rows = 1, cols = 1, stride = 1;
  size_t elements() const { return static_cast<size_t>(rows * stride); }
};

constexpr Shape kShapes[] = {{1, 1, 1}, {1, 100, 100}, {3, 64, 64},   {5, 33, 40},   {0, 8, 8},
                             {4, 0, 4}, {7, 1, 3},     {2, 600, 600}, {9, 130, 131}, {1, 4096, 4096}};

/// Values of one rank for one call: large and small ones, so that their sum depends on the order.
std::vector<float> values_of(int rank, unsigned seed, size_t count) {
  std::mt19937 random(seed * 64 + static_cast<unsigned>(rank));
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(random) * (rank % 2 == 0 ? 1.0F : 1000.0F);
  return out;
}

template <class T>
std::vector<T> elements_of(int rank, unsigned seed, size_t count) {
  std::mt19937 random(seed * 64 + static_cast<unsigned>(rank) + 1'000'000);
  std::vector<T> out(count);
  for (T& v : out) v = static_cast<T>(random() % 251);
  return out;
}

template <class T>
std::string compare(std::string_view what, const std::vector<T>& got, const std::vector<T>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) return cat(what, ": element ", i, " is ", +got[i], ", not ", +want[i], "; ");
  }
  return "";
}

std::string describe(std::string_view name, const Communicator& c, Shape s) {
  return cat(name, " of [", s.rows, ", ", s.cols, "] stride ", s.stride, ", rank ", c.rank(), " of ", c.size());
}

bool inside(size_t i, Shape s) { return static_cast<int64_t>(i) % s.stride < s.cols; }

template <class Combine>
std::vector<float> combined(int size, unsigned seed, size_t count, Combine combine) {
  std::vector<float> out = values_of(0, seed, count);
  for (int r = 1; r < size; ++r) {
    const std::vector<float> part = values_of(r, seed, count);
    for (size_t i = 0; i < count; ++i) out[i] = combine(out[i], part[i]);
  }
  return out;
}
float sum(float a, float b) { return a + b; }
float largest(float a, float b) { return std::max(a, b); }

/// A NaN of any rank is every rank's maximum.
std::string maximum_of_nan(Communicator& c) {
  std::string wrong;
  for (int odd = 0; odd < c.size(); ++odd) {
    float value = c.rank() == odd ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(c.rank());
    c.all_reduce_max(F32View(&value, 1, 1));
    if (!std::isnan(value)) wrong += cat("the NaN of rank ", odd, " is lost; ");
  }
  return wrong;
}

std::string reduce(Communicator& c, Shape s, unsigned seed, bool max) {
  std::vector<float> mine = values_of(c.rank(), seed, s.elements());
  std::vector<float> want = combined(c.size(), seed, s.elements(), max ? largest : sum);
  for (size_t i = 0; i < want.size(); ++i) {
    if (!inside(i, s)) want[i] = mine[i];
  }
  const F32View view(mine.data(), s.rows, s.cols, s.stride);
  if (max)
    c.all_reduce_max(view);
  else
    c.all_reduce_sum(view);
  return compare(describe(max ? "all_reduce_max" : "all_reduce_sum", c, s), mine, want);
}

/// Counts of rows a rank that add up to s.rows: even, or ragged with ranks that have none.
std::vector<int64_t> counts_of(int size, int64_t rows, bool ragged, unsigned seed) {
  std::vector<int64_t> out(static_cast<size_t>(size));
  std::mt19937 random(seed + 77);
  if (ragged) {
    for (int64_t r = 0; r < rows; ++r) ++out[random() % out.size() / 2 * 2];
  } else {
    for (int r = 0; r < size; ++r) out[static_cast<size_t>(r)] = row_share(rows, size, r).count;
  }
  return out;
}

std::string reduce_scatter(Communicator& c, Shape s, unsigned seed, bool ragged) {
  const std::vector<int64_t> counts = counts_of(c.size(), s.rows, ragged, seed);
  std::vector<float> mine = values_of(c.rank(), seed, s.elements());
  const std::vector<float> want = combined(c.size(), seed, s.elements(), sum);
  c.reduce_scatter_rows({mine.data(), s.rows, s.cols, s.stride}, counts);
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + c.rank(), int64_t{0});
  const int64_t end = begin + counts[static_cast<size_t>(c.rank())];
  std::vector<float> got, own;
  for (auto i = static_cast<size_t>(begin * s.stride); i < static_cast<size_t>(end * s.stride); ++i) {
    if (inside(i, s)) got.push_back(mine[i]), own.push_back(want[i]);
  }
  return compare(describe("reduce_scatter_rows", c, s), got, own);
}

template <class T>
std::string gather_rows(Communicator& c, Shape s, unsigned seed, bool ragged) {
  const std::vector<int64_t> counts = counts_of(c.size(), s.rows, ragged, seed);
  std::vector<T> all = elements_of<T>(c.rank(), seed, s.elements());
  std::vector<T> want = all;
  int64_t row = 0;
  for (int r = 0; r < c.size(); ++r) {
    const std::vector<T> theirs = elements_of<T>(r, seed, s.elements());
    for (const int64_t end = row + counts[static_cast<size_t>(r)]; row < end; ++row) {
      for (int64_t col = 0; col < s.cols; ++col)
        want[static_cast<size_t>(row * s.stride + col)] = theirs[static_cast<size_t>(row * s.stride + col)];
    }
  }
  const DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kBF16;
  c.all_gather_rows({.dtype = dtype, .data = all.data(), .rows = s.rows, .cols = s.cols, .stride = s.stride}, counts);
  return compare(describe(cat("all_gather_rows of ", dtype_name(dtype)), c, s), all, want);
}

/// root -1: all_gather_columns.
std::string gather_columns(Communicator& c, Shape s, unsigned seed, int root) {
  const std::vector<float> mine = values_of(c.rank(), seed, s.elements());
  const ConstF32View local(mine.data(), s.rows, s.cols, s.stride);
  const bool wants = root < 0 || root == c.rank();
  std::vector<float> out(wants ? static_cast<size_t>(s.rows * s.cols * c.size()) : 0), want = out;
  for (int r = 0; wants && r < c.size(); ++r) {
    const std::vector<float> theirs = values_of(r, seed, s.elements());
    for (int64_t row = 0; row < s.rows; ++row) {
      std::copy_n(theirs.begin() + row * s.stride, s.cols, want.begin() + (row * c.size() + r) * s.cols);
    }
  }
  const F32View view = wants ? F32View(out.data(), s.rows, s.cols * c.size()) : F32View();
  if (root < 0)
    c.all_gather_columns(local, view);
  else
    c.gather_columns(local, view, root);
  return compare(describe(root < 0 ? "all_gather_columns" : "gather_columns", c, s), out, want);
}

std::string broadcast(Communicator& c, size_t count, unsigned seed, int root) {
  std::vector<uint8_t> mine = elements_of<uint8_t>(c.rank(), seed, count);
  c.broadcast(std::as_writable_bytes(std::span(mine)), root);
  return compare(cat("broadcast of ", count, " bytes from ", root, " to ", c.rank()), mine, elements_of<uint8_t>(root, seed, count));
}

/// `messages` of growing size round the ring, all sent before any is received.
std::string ring(Communicator& c, int messages, size_t longest, unsigned seed) {
  if (c.size() == 1) return "";
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  const auto count = [&](int i) { return longest * static_cast<size_t>(i) / static_cast<size_t>(messages); };
  for (int i = 0; i < messages; ++i) {
    const std::vector<uint8_t> bytes = elements_of<uint8_t>(c.rank(), seed + static_cast<unsigned>(i), count(i));
    c.send(std::as_bytes(std::span(bytes)), next);
  }
  std::string wrong;
  for (int i = 0; i < messages; ++i) {
    std::vector<uint8_t> got(count(i));
    c.receive(std::as_writable_bytes(std::span(got)), before);
    wrong += compare(cat("message ", i), got, elements_of<uint8_t>(before, seed + static_cast<unsigned>(i), count(i)));
  }
  return wrong;
}

std::string publish(Communicator& c) {
  const int mine = 100 + c.rank();
  const std::span<const void* const> all = c.publish(&mine);
  std::string wrong;
  if (!c.shares_memory()) return all.empty() ? "" : "published where peers cannot be read; ";
  if (static_cast<int>(all.size()) != c.size()) return cat("publish gave ", all.size(), " pointers of ", c.size(), "; ");
  for (int r = 0; r < c.size(); ++r) {
    if (*static_cast<const int*>(all[static_cast<size_t>(r)]) != 100 + r) wrong += cat("rank ", r, "'s pointer is another's; ");
  }
  c.barrier();
  return wrong;
}

// ---- the checks --------------------------------------------------------------------------------------------------------------

std::string sums_follow_rank_order(Communicator& c) {
  std::string wrong;
  for (const Shape& s : kShapes) wrong += reduce(c, s, 1, false);
  return wrong;
}

std::string maxima_are_the_largest(Communicator& c) {
  std::string wrong;
  for (const Shape& s : kShapes) wrong += reduce(c, s, 2, true);
  wrong += maximum_of_nan(c);
  return wrong;
}

std::string own_rows_hold_sums(Communicator& c) {
  std::string wrong;
  for (const Shape& s : kShapes) wrong += reduce_scatter(c, s, 3, false) + reduce_scatter(c, s, 4, true);
  return wrong;
}

std::string rows_of_all_are_gathered(Communicator& c) {
  std::string wrong;
  for (const Shape& s : kShapes) {
    wrong += gather_rows<float>(c, s, 5, false) + gather_rows<float>(c, s, 6, true);
    wrong += gather_rows<uint16_t>(c, s, 7, false) + gather_rows<uint16_t>(c, s, 8, true);
  }
  return wrong;
}

std::string columns_stand_side_by_side(Communicator& c) {
  std::string wrong;
  for (const Shape& s : kShapes) {
    for (int root = -1; root < c.size(); ++root) wrong += gather_columns(c, s, 9, root);
  }
  return wrong;
}

std::string roots_bytes_reach_all(Communicator& c) {
  std::string wrong;
  for (const size_t count : {0, 1, 1000, 50'000}) {
    for (int root = 0; root < c.size(); ++root) wrong += broadcast(c, count, 10, root);
  }
  return wrong;
}

std::string messages_keep_their_order(Communicator& c) { return ring(c, 20, 5000, 11) + ring(c, 3, 200'000, 12); }

std::string published_pointers_are_peers(Communicator& c) {
  std::string wrong;
  for (int i = 0; i < 50; ++i) wrong += publish(c);
  return wrong;
}

/// The bytes that all ranks received since `before`.
uint64_t received_by_all(Communicator& c, uint64_t before) {
  const auto mine = static_cast<float>(c.bytes_received() - before);  // small enough to be exact
  std::vector<float> all(static_cast<size_t>(c.size()));
  c.all_gather_columns({&mine, 1, 1}, {all.data(), 1, c.size()});
  return static_cast<uint64_t>(std::accumulate(all.begin(), all.end(), 0.0));
}

std::string received_bytes_are_counted(Communicator& c) {
  const Shape s{7, 33, 35};
  const auto size = static_cast<uint64_t>(c.size()), n = uint64_t{4} * 7 * 33;
  std::string wrong;
  const auto expect = [&](const char* name, uint64_t bytes, auto call) {
    const uint64_t before = c.bytes_received();
    wrong += call();
    const uint64_t got = received_by_all(c, before);
    if (got != bytes) wrong += cat(name, " received ", got, " bytes on all ranks, not ", bytes, "; ");
  };
  expect("all_reduce_sum", 2 * (size - 1) * n, [&] { return reduce(c, s, 20, false); });
  expect("all_reduce_max", 2 * (size - 1) * n, [&] { return reduce(c, s, 20, true); });
  expect("reduce_scatter_rows", (size - 1) * n, [&] { return reduce_scatter(c, s, 20, false); });
  expect("ragged reduce_scatter_rows", (size - 1) * n, [&] { return reduce_scatter(c, s, 20, true); });
  expect("all_gather_rows", (size - 1) * n, [&] { return gather_rows<float>(c, s, 20, true); });
  expect("all_gather_rows of bf16", (size - 1) * n / 2, [&] { return gather_rows<uint16_t>(c, s, 20, true); });
  expect("all_gather_columns", (size - 1) * n * size, [&] { return gather_columns(c, s, 20, -1); });
  expect("gather_columns", (size - 1) * n, [&] { return gather_columns(c, s, 20, c.size() - 1); });
  expect("broadcast", (size - 1) * 999, [&] { return broadcast(c, 999, 20, 0); });
  expect("a message", size > 1 ? size * 500 : 0, [&] { return ring(c, 2, 1000, 20); });
  expect("a barrier", 0, [&] { return c.barrier(), std::string(); });
  expect("count_received", 3 * size, [&] { return c.count_received(3), std::string(); });
  return wrong;
}

/// One call of any kind with a random shape; all ranks draw the same.
std::string random_call(Communicator& c, std::mt19937& random) {
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % static_cast<uint64_t>(below)); };
  Shape s{.rows = draw(6), .cols = draw(70)};
  s.stride = std::max<int64_t>(1, s.cols + draw(2) * draw(9));
  const auto seed = static_cast<unsigned>(draw(1'000'000));
  const bool flag = draw(2) == 0;
  const int root = static_cast<int>(draw(c.size()));
  switch (draw(9)) {
    case 0:
      return reduce(c, s, seed, false);
    case 1:
      return reduce(c, s, seed, true);
    case 2:
      return reduce_scatter(c, s, seed, flag);
    case 3:
      return gather_rows<float>(c, s, seed, flag);
    case 4:
      return gather_rows<uint16_t>(c, s, seed, flag);
    case 5:
      return gather_columns(c, s, seed, flag ? -1 : root);
    case 6:
      return broadcast(c, static_cast<size_t>(draw(2000)), seed, root);
    case 7:
      return ring(c, 3, static_cast<size_t>(draw(2000)), seed);
    default:
      return publish(c);
  }
}

std::string random_sequences_keep_ranks_in_step(Communicator& c) {
  std::string wrong;
  std::mt19937 random(static_cast<unsigned>(c.size()) * 31);
  for (int i = 0; i < 300 && wrong.empty(); ++i) wrong += random_call(c, random);
  return wrong;
}

constexpr Check kChecks[] = {
    {"SumsFollowRankOrder", sums_follow_rank_order},
    {"MaximaAreTheLargest", maxima_are_the_largest},
    {"OwnRowsHoldSums", own_rows_hold_sums},
    {"RowsOfAllAreGathered", rows_of_all_are_gathered},
    {"ColumnsStandSideBySide", columns_stand_side_by_side},
    {"RootsBytesReachAll", roots_bytes_reach_all},
    {"MessagesKeepTheirOrder", messages_keep_their_order},
    {"PublishedPointersArePeers", published_pointers_are_peers},
    {"ReceivedBytesAreCounted", received_bytes_are_counted},
    {"RandomSequencesKeepRanksInStep", random_sequences_keep_ranks_in_step},
};

}  // namespace

std::span<const Check> checks() { return kChecks; }

}  // namespace lamina::suite
