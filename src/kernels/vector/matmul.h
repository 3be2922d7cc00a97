#pragma once
// Blocking of the matmul over panels, depth and rows.

#include "kernels/packed.h"
#include "kernels/vector/tile.h"

namespace lamina::kernels::vec {

/// Depth of one pass when there are many rows: a panel's part (512 KiB of bf16) stays in the second-level cache.
inline constexpr int64_t kMostDepth = 8192;

/// k in as few equal passes of at most kMostDepth as possible, of whole pairs.
template <class V>
int64_t depth_block(int64_t k) {
  const int64_t passes = (k + kMostDepth - 1) / kMostDepth;
  return ((k + passes - 1) / passes + 1) / 2 * 2;
}

template <class V, class Op>
struct Matmul {
  const typename Op::X* x = nullptr;
  int64_t rows = 0;
  int64_t x_stride = 0;
  const typename Op::W* w = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  const float* bias = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0;

  void run(int64_t panel_begin, int64_t panel_end) const {
    const int64_t block = rows <= Op::kRows ? k : depth_block<V>(k);
    const int64_t group = 2 * block <= kMostDepth ? 2 : 1;  // panels that share a tile of x while it is in the first-level cache
    for (int64_t first = panel_begin; first < panel_end; first += group) {
      const int64_t last = least<V>(first + group, panel_end);
      for (int64_t depth = 0; depth < k; depth += block)
        for (int64_t row = 0; row < rows;) {
          const int64_t count = tile_share<V, Op>(rows - row);
          for (int64_t panel = first; panel < last; ++panel) run_tile(panel, row, count, depth, least<V>(block, k - depth));
          row += count;
        }
    }
  }

 private:
  void run_tile(int64_t panel, int64_t row, int64_t count, int64_t depth, int64_t length) const {
    const int64_t padded_k = (k + Op::kDepth - 1) / Op::kDepth * Op::kDepth;
    const int64_t column = panel * kPanelRows;
    TileArgs<Op> args;
    args.x = x + row * x_stride + depth;
    args.x_stride = x_stride;
    args.w = w + (panel * padded_k + depth) * kPanelRows;
    args.steps = length / Op::kDepth;
    args.half_step = length % Op::kDepth != 0;
    args.resume = depth > 0;
    args.out = out + row * out_stride + column;
    args.out_stride = out_stride;
    args.columns = least<V>(kPanelRows, n - column);
    args.bias = bias != nullptr && depth + length == k ? bias + column : nullptr;
    panel_tile<V, Op>(count, args);
  }
};

template <class V, class Op>
void matmul_with(const Activation& x, const PackedMatrix& packed, const float* bias, F32View out, int64_t begin, int64_t end) {
  const Matmul<V, Op> matmul{.x = static_cast<const typename Op::X*>(x.data),
                             .rows = x.rows,
                             .x_stride = x.stride,
                             .w = static_cast<const typename Op::W*>(packed.data),
                             .n = packed.n,
                             .k = packed.k,
                             .bias = bias,
                             .out = out.data,
                             .out_stride = out.stride};
  matmul.run(begin, end);
}

template <class V>
void matmul_panels(const Activation& x, const PackedMatrix& packed, const float* bias, F32View out, int64_t begin, int64_t end) {
  if (packed.storage == DType::kF32) return matmul_with<V, Single<V, float>>(x, packed, bias, out, begin, end);
  if (packed.storage == DType::kF16) return matmul_with<V, Single<V, uint16_t>>(x, packed, bias, out, begin, end);
  if (packed.compute == DType::kF32) return matmul_with<V, PairExpand<V, float>>(x, packed, bias, out, begin, end);
  return matmul_with<V, typename V::Bf16Op>(x, packed, bias, out, begin, end);
}

}  // namespace lamina::kernels::vec
