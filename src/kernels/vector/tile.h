#pragma once
// The one inner loop of matmul and attention: R rows of x times C vectors of columns of a panel, the whole depth in one chain of
// additions per output element. Interrupting the chain by a store and a load (resume) does not change it.

#include "kernels/packed.h"
#include "kernels/vector/lanes.h"

namespace lamina::kernels::vec {

/// Arguments of a tile. A panel has kPanelRows columns and Op::kDepth values of depth a step.
template <class Op>
struct TileArgs {
  const typename Op::X* x = nullptr;  // [rows, steps * Op::kDepth]
  int64_t x_stride = 0;
  const typename Op::W* w = nullptr;  // [steps, kPanelRows, Op::kDepth]
  int64_t steps = 0;
  bool half_step = false;  // one more step follows, of which only the first value of depth exists in x
  bool resume = false;     // continue the sums in out instead of starting at zero
  float* out = nullptr;    // [rows, columns]
  int64_t out_stride = 0;
  int64_t columns = kPanelRows;  // columns to write
  const float* bias = nullptr;   // [columns], added at the end; or null
};

// --- how one step multiplies ------------------------------------------------------------------------------------------------------

/// Weights bf16 in pairs, x bf16, the dot-product unit.
template <class V>
struct PairDot {
  using X = uint16_t;
  using W = uint16_t;
  static constexpr int kDepth = 2;
  static constexpr int kRows = V::kTileRows;

  template <int R, int C>
  static void step(typename V::F (&sum)[R][C], const X* x, int64_t stride, const W* w) {
    multiply<R, C>(sum, w, [&](int r) { return V::broadcast_pair(x + r * stride); });
  }
  template <int R, int C>
  static void half_step(typename V::F (&sum)[R][C], const X* x, int64_t stride, const W* w) {
    multiply<R, C>(sum, w, [&](int r) { return V::broadcast_word(x[r * stride]); });
  }

 private:
  template <int R, int C, class Broadcast>
  static void multiply(typename V::F (&sum)[R][C], const W* w, Broadcast broadcast) {
    typename V::I b[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) b[c] = V::load_words(w + c * V::kWidth * 2);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const typename V::I a = broadcast(r);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = V::dot(sum[r][c], a, b[c]);
    }
  }
};

/// Weights bf16 in pairs, expanded; x f32 or bf16 (expanded too, so the products are exact).
template <class V, class XType>
struct PairExpand {
  using X = XType;
  using W = uint16_t;
  static constexpr int kDepth = 2;
  static constexpr int kRows = V::kExpandRows;  // the mask of the upper halves takes a register

  template <int R, int C>
  static void step(typename V::F (&sum)[R][C], const X* x, int64_t stride, const W* w) {
    multiply<R, C>(sum, [&](int c) { return V::low_half(word(w, c)); }, [&](int r) { return first(x + r * stride); });
    __asm__("" : "+r"(x));  // load x again: its pairs do not fit the registers beside the sums
    multiply<R, C>(sum, [&](int c) { return V::high_half(word(w, c)); }, [&](int r) { return second(x + r * stride); });
  }
  template <int R, int C>
  static void half_step(typename V::F (&sum)[R][C], const X* x, int64_t stride, const W* w) {
    multiply<R, C>(sum, [&](int c) { return V::low_half(word(w, c)); }, [&](int r) { return only(x + r * stride); });
  }

 private:
  static typename V::I word(const W* w, int c) { return V::load_words(w + c * V::kWidth * 2); }
  static typename V::F first(const float* x) { return V::broadcast(x); }
  static typename V::F second(const float* x) { return V::broadcast(x + 1); }
  static typename V::F only(const float* x) { return V::broadcast(x); }
  static typename V::F first(const uint16_t* x) { return V::low_half(V::broadcast_pair(x)); }
  static typename V::F second(const uint16_t* x) { return V::high_half(V::broadcast_pair(x)); }
  static typename V::F only(const uint16_t* x) { return V::low_half(V::broadcast_word(*x)); }  // x + 1 is not ours

  template <int R, int C, class Weight, class Broadcast>
  static void multiply(typename V::F (&sum)[R][C], Weight weight, Broadcast broadcast) {
    typename V::F b[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) b[c] = weight(c);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const typename V::F a = broadcast(r);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = V::fma(a, b[c], sum[r][c]);
    }
  }
};

/// Weights f32 or f16 (expanded), x f32.
template <class V, class WType>
struct Single {
  using X = float;
  using W = WType;
  static constexpr int kDepth = 1;
  static constexpr int kRows = V::kTileRows;

  template <int R, int C>
  static void step(typename V::F (&sum)[R][C], const X* x, int64_t stride, const W* w) {
    typename V::F b[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) b[c] = V::load_weights(w + c * V::kWidth);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const typename V::F a = V::broadcast(x + r * stride);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = V::fma(a, b[c], sum[r][c]);
    }
  }
  template <int R, int C>
  static void half_step(typename V::F (&)[R][C], const X*, int64_t, const W*) {}
};

// --- the loop -----------------------------------------------------------------------------------------------------------------------

template <class V>
auto load_columns(const float* p, int64_t count) {
  return count >= V::kWidth ? V::load(p) : count > 0 ? V::load_n(p, count) : V::zero();
}

template <class V, class Op, int R, int C>
void begin_tile(const TileArgs<Op>& args, typename V::F (&sum)[R][C]) {
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sum[r][c] = args.resume ? load_columns<V>(args.out + r * args.out_stride + c * V::kWidth, args.columns - c * V::kWidth) : V::zero();
}

template <class V, class Op, int R, int C>
void end_tile(const TileArgs<Op>& args, const typename V::F (&sum)[R][C]) {
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    const int64_t count = args.columns - c * V::kWidth;
    if (count <= 0) break;
    const auto bias = args.bias == nullptr ? V::zero() : load_columns<V>(args.bias + c * V::kWidth, count);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const auto v = args.bias == nullptr ? sum[r][c] : V::add(sum[r][c], bias);
      float* out = args.out + r * args.out_stride + c * V::kWidth;
      if (count >= V::kWidth)
        V::store(out, v);
      else
        V::store_n(out, v, count);
    }
  }
}

template <class V, class Op, int R, int C>
[[gnu::noinline]] void tile(const TileArgs<Op>& args) {
  constexpr int64_t kStep = kPanelRows * Op::kDepth;
  constexpr int64_t kAhead = 8192 / static_cast<int64_t>(sizeof(typename Op::W));  // what arrives while the loop walks it
  typename V::F sum[R][C];
  begin_tile<V, Op, R, C>(args, sum);
  const typename Op::X* x = args.x;
  const typename Op::W* w = args.w;
  const int64_t stride = args.x_stride;
  for (const typename Op::W* end = w + args.steps * kStep; w != end; w += kStep, x += Op::kDepth) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) V::prefetch(w + kAhead + c * V::kWidth * Op::kDepth);
    Op::template step<R, C>(sum, x, stride, w);
  }
  if (args.half_step) Op::template half_step<R, C>(sum, x, stride, w);
  end_tile<V, Op, R, C>(args, sum);
}

/// tile for a number of rows known at run time, at most R.
template <class V, class Op, int R, int C>
void tile_rows(int64_t rows, const TileArgs<Op>& args) {
  if (rows == R)
    tile<V, Op, R, C>(args);
  else if constexpr (R > 1)
    tile_rows<V, Op, R - 1, C>(rows, args);
}

/// A whole panel for `rows` rows, at most Op::kRows. Few rows take all columns at once, more go over parts of kTileVectors vectors.
template <class V, class Op>
void panel_tile(int64_t rows, TileArgs<Op> args) {
  constexpr int kWhole = kPanelRows / V::kWidth;
  if constexpr (kWhole == V::kTileVectors) {
    tile_rows<V, Op, Op::kRows, kWhole>(rows, args);
  } else {
    if (rows <= V::kWholePanelRows) return tile_rows<V, Op, V::kWholePanelRows, kWhole>(rows, args);
    constexpr int64_t kPart = V::kTileVectors * V::kWidth;
    for (int64_t c = 0; c < kPanelRows && args.columns > 0; c += kPart) {
      tile_rows<V, Op, Op::kRows, V::kTileVectors>(rows, args);
      args.w += kPart * Op::kDepth;
      args.out += kPart;
      args.columns -= kPart;
      if (args.bias != nullptr) args.bias += kPart;
    }
  }
}

/// Rows of the next tile when `rows` are left: even shares of at most Op::kRows, so that no tile is left with a row or two.
template <class V, class Op>
int64_t tile_share(int64_t rows) {
  const int64_t tiles = (rows + Op::kRows - 1) / Op::kRows;
  return (rows + tiles - 1) / tiles;
}

}  // namespace lamina::kernels::vec
