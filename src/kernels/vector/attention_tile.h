#pragma once
// The inner loop of attention, for scores and for the weighted sum of values, and the exponential of its softmax.
//
// Everything multiplied is a matrix of 32-bit words, a word being one f32 or a pair of neighbouring bf16. A tile is R rows whose words are
// broadcast times C vectors of columns; an output element is one chain of additions over the steps, whichever operand is the broadcast one.

#include "kernels/vector/lanes.h"

namespace lamina::kernels::vec {

/// How words multiply: f32, one value of depth a step.
template <class V>
struct FloatWords {
  static constexpr int64_t kDepth = 1;
  static constexpr uint32_t kOnes = 0x3F800000;
  static constexpr float kExp2[] = {0.693147242F, 0.240226522F, 0.0555031039F, 0.00961769279F, 0.00134066434F, 0.000155946778F};  // 2.2e-8
  static typename V::F multiply_add(typename V::F sum, typename V::I a, typename V::I b) {
    return V::fma(V::as_floats(a), V::as_floats(b), sum);
  }
};

/// bf16, two values a step, on the dot-product unit.
template <class V>
struct PairWords {
  static constexpr int64_t kDepth = 2;
  static constexpr uint32_t kOnes = 0x3F803F80;
  static constexpr float kExp2[] = {0.693113625F, 0.240207106F, 0.0559768826F, 0.00978291221F};  // 3.6e-6: a 500th of the rounding to bf16
  static typename V::F multiply_add(typename V::F sum, typename V::I a, typename V::I b) { return V::dot(sum, a, b); }
};

/// 2^x within the relative error that Words::kExp2 states, plus 2^-23; 0 from -150 down, NaN stays. x = n + r with |r| <= 1/2; 2^r is
/// 1 + r times a polynomial, minimax in relative error, fitted for this file. 2^0 is exactly 1. The vectors go in step: one after the other
/// they would wait for their own results, more of them than the CPU's schedulers hold.
template <class V, class Words, int N>
[[gnu::always_inline]] inline void exp2(typename V::F (&x)[N]) {
  constexpr int kTerms = sizeof(Words::kExp2) / sizeof(float);
  typename V::F n[N], p[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = V::max(V::set1(-150.0F), x[i]);  // the second operand is kept when it is NaN
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) n[i] = V::round(x[i]);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = V::sub(x[i], n[i]);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) p[i] = V::fma(x[i], V::set1(Words::kExp2[kTerms - 1]), V::set1(Words::kExp2[kTerms - 2]));
#pragma GCC unroll 8
  for (int term = kTerms - 3; term >= 0; --term)
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) p[i] = V::fma(p[i], x[i], V::set1(Words::kExp2[term]));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) p[i] = V::fma(p[i], x[i], V::set1(1.0F));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = V::scale(p[i], n[i]);
}

template <class V, class Words>
typename V::F exp2(typename V::F x) {
  typename V::F one[1] = {x};
  exp2<V, Words>(one);
  return one[0];
}

/// Where the sums of a tile begin: at zero, or at out times a factor of its row or of its lane.
enum class TileStart { kZero, kRowFactor, kLaneFactor };

/// out[r, c] = start + sum over steps of x[r, step] * w[step, c].
struct WordTile {
  const uint32_t* x = nullptr;
  int64_t x_row = 0;   // words from row to row
  int64_t x_step = 0;  // and from step to step
  const uint32_t* w = nullptr;
  int64_t w_step = 0;
  int64_t steps = 0;
  float* out = nullptr;
  int64_t out_row = 0;
  const float* factor = nullptr;  // [rows], or [columns]
};

/// R rows, C vectors of columns from `column` on. (The arguments are not copied: what is written in words and read in vectors waits.)
template <class V, class Words, TileStart kStart, int R, int C>
[[gnu::noinline]] void word_tile(const WordTile& args, int64_t column) {
  const uint32_t* x = args.x;
  const uint32_t* w = args.w + column;
  float* const out = args.out + column;
  const int64_t x_row = args.x_row, x_step = args.x_step, w_step = args.w_step, out_row = args.out_row, steps = args.steps;
  typename V::F sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      if constexpr (kStart == TileStart::kZero)
        sum[r][c] = V::zero();
      else if constexpr (kStart == TileStart::kRowFactor)
        sum[r][c] = V::mul(V::load(out + r * out_row + c * V::kWidth), V::set1(args.factor[r]));
      else
        sum[r][c] = V::mul(V::load(out + r * out_row + c * V::kWidth), V::load(args.factor + column + c * V::kWidth));
    }
  for (int64_t step = 0; step < steps; ++step, x += x_step, w += w_step) {
    typename V::I b[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) b[c] = V::load_words(w + c * V::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const typename V::I a = V::set1_word(x[r * x_row]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = Words::multiply_add(sum[r][c], a, b[c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) V::store(out + r * out_row + c * V::kWidth, sum[r][c]);
}

/// Vectors of columns a tile of R rows may have: sums, columns and one broadcast must fit the registers.
template <class V, int R>
inline constexpr int kTileColumns = (V::kRegisters - 1) / (R + 1) < 5 ? (V::kRegisters - 1) / (R + 1) : 5;

/// The first of even shares of `all` of at most `most`.
template <class V>
int64_t even_share(int64_t all, int64_t most) {
  if (all <= most) return all;
  const int64_t shares = (all + most - 1) / most;
  return (all + shares - 1) / shares;
}

/// R rows, `columns` <= C vectors of columns.
template <class V, class Words, TileStart kStart, int R, int C = kTileColumns<V, R>>
void word_columns(int64_t columns, const WordTile& args, int64_t column = 0) {
  if (columns == C)
    word_tile<V, Words, kStart, R, C>(args, column);
  else if constexpr (C > 1)
    word_columns<V, Words, kStart, R, C - 1>(columns, args, column);
}

/// Any number of rows up to R, any number of vectors of columns.
template <class V, class Words, TileStart kStart, int R>
void word_rows(int64_t rows, int64_t vectors, const WordTile& args) {
  if (rows == R) {
    for (int64_t done = 0; done < vectors;) {
      const int64_t columns = even_share<V>(vectors - done, kTileColumns<V, R>);
      word_columns<V, Words, kStart, R>(columns, args, done * V::kWidth);
      done += columns;
    }
  } else if constexpr (R > 1) {
    word_rows<V, Words, kStart, R - 1>(rows, vectors, args);
  }
}

}  // namespace lamina::kernels::vec
