#include "layers/candidates.h"

#include <algorithm>
#include <limits>

namespace lamina {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr int64_t kFloats = sizeof(LogitCandidate) / sizeof(float);
constexpr int64_t kPays = 4;  // a candidate is worth sending while at most one of so many floats is

bool larger(const LogitCandidate& a, const LogitCandidate& b) { return a.value != b.value ? a.value > b.value : a.id < b.id; }

/// The out.size() largest of `values`, in no order; places left over hold none.
void take_largest(const kernels::Kernels& kernels, std::span<const float> values, int64_t first_id, std::span<LogitCandidate> out) {
  std::fill(out.begin(), out.end(), LogitCandidate{kNone, -1});
  if (out.size() == 1) {
    const int64_t top = kernels.argmax(values);
    if (top >= 0) out[0] = {values[static_cast<size_t>(top)], static_cast<TokenId>(first_id + top)};
    return;
  }
  // A heap with the least in front. Ids ascend, so that a value equal to the least never replaces it; nor does a NaN.
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > out.front().value)) continue;
    std::pop_heap(out.begin(), out.end(), larger);
    out.back() = {values[i], static_cast<TokenId>(first_id + static_cast<int64_t>(i))};
    std::push_heap(out.begin(), out.end(), larger);
  }
}

/// After a fault what was received is undefined: ids are not trusted.
void spread(std::span<const LogitCandidate> candidates, std::span<float> row) {
  std::fill(row.begin(), row.end(), kNone);
  for (const LogitCandidate& candidate : candidates) {
    if (candidate.value > kNone && candidate.id >= 0 && candidate.id < std::ssize(row))
      row[static_cast<size_t>(candidate.id)] = candidate.value;
  }
}

/// Candidates as the communicator carries them: it moves bits.
F32View as_floats(LogitCandidate* candidates, int64_t rows, int64_t count) {
  return {reinterpret_cast<float*>(candidates), rows, count * kFloats};
}

}  // namespace

bool candidates_pay(int candidates, int64_t local_columns) { return candidates > 0 && candidates * kFloats * kPays <= local_columns; }

size_t candidates_bytes(int64_t rows, int64_t local_columns, int64_t vocab_size, int ranks) {
  const int64_t columns = (1 + ranks) * (local_columns / kPays) + vocab_size;
  return static_cast<size_t>(rows * columns) * sizeof(float);
}

F32View gather_candidates(ForwardContext& ctx, const ParallelGroup& group, ConstF32View local, int64_t first_id, int count,
                          int64_t vocab_size) {
  const int64_t rows = local.rows;
  auto* mine = ctx.arena().take<LogitCandidate>(rows * count);
  ctx.compute.team->parallel_for(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      take_largest(*ctx.compute.kernels, {local.row(r), static_cast<size_t>(local.cols)}, first_id,
                   {mine + r * count, static_cast<size_t>(count)});
    }
  });
  const bool root = group.rank == 0;
  const int64_t all_count = int64_t{count} * group.size;
  auto* all = root ? ctx.arena().take<LogitCandidate>(rows * all_count) : nullptr;
  group.communicator->gather_columns(as_floats(mine, rows, count), as_floats(all, rows, all_count), 0);
  if (!root) return {nullptr, rows, vocab_size};
  const F32View out = ctx.arena().matrix(rows, vocab_size);
  ctx.compute.team->parallel_for(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      spread({all + r * all_count, static_cast<size_t>(all_count)}, {out.row(r), static_cast<size_t>(vocab_size)});
    }
  });
  return out;
}

}  // namespace lamina
