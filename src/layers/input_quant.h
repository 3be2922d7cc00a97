#pragma once
// `fuse_input_quant`: who makes the input of a quantised matmul writes its codes. Each row is made in f32, one at a time, and quantised
// while it lies in the first-level cache; the bits are those of a matmul that quantises the whole f32 input itself.

#include <cstddef>

#include "layers/context.h"

namespace lamina {

/// Where `rows` of codes go, in stage memory. A static scale is filled in; scales of rows come with the rows.
MutableActivation coded_input(ForwardContext& ctx, const InputCodes& codes, int64_t rows, int64_t cols);

/// Quantises x [1, cols] to `out`, one row of coded_input().
void quantise_row(const kernels::Kernels& kernels, ConstF32View x, const MutableActivation& out);

/// The codes of x, in stage memory.
Activation coded_rows(ForwardContext& ctx, const InputCodes& codes, ConstF32View x);

/// Makes every row of `out`: make(r, row) leaves row r in `row`, f32 [1, cols], where it is then quantised from. Threads claim multiples of
/// `grain` rows. Takes stage memory.
template <class Make>
void make_coded_rows(ForwardContext& ctx, const MutableActivation& out, int64_t grain, Make&& make) {
  const MutableActivation rows = ctx.arena().activation(DType::kF32, ctx.compute.team->size(), out.cols);
  ctx.compute.team->parallel_for(out.rows, grain, [&](int64_t begin, int64_t end, int thread) {
    const MutableActivation row = rows.slice(thread, 1);
    for (int64_t r = begin; r < end; ++r) {
      make(r, row);
      quantise_row(*ctx.compute.kernels, row.view().f32(), out.slice(r, 1));
    }
  });
}

/// Stage memory of both, besides the codes.
size_t coded_rows_bytes(int64_t rows, int64_t cols, int threads);

}  // namespace lamina
