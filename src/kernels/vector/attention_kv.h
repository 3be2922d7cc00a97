#pragma once
// How keys and values of each type become words (attention_tile.h), and queries and softmax weights with them.

#include "kernels/attention.h"
#include "kernels/vector/attention_tile.h"
#include "kernels/vector/pack.h"

namespace lamina::kernels::vec {

/// f32 products of f32 (or expanded) keys and values.
template <class V, class KvType>
struct FloatKv {
  using Kv = KvType;
  using Words = FloatWords<V>;
  using Plain = FloatKv<V, float>;        // what is left once keys and values are words
  static constexpr bool kScaled = false;  // the scale of a head of a slot does not matter

  /// n <= kWidth words of a row of `dim` values, from word `step` on.
  static typename V::I load_words(const Kv* p, float, int64_t dim, int64_t step, int64_t n) {
    (void)dim;
    if constexpr (sizeof(Kv) == 4)
      return V::as_words(F32Source<V>::load(p + step, n));
    else
      return V::as_words(Bf16Source<V>::load(p + step, n));
  }
  static typename V::I query_words(const float* p, int64_t dim, int64_t step, int64_t n) {
    (void)dim;
    return V::as_words(F32Source<V>::load(p + step, n));
  }
  /// Words of one step of values, n <= 32 columns (zeros beyond), from the step's keys; nullptr: no such key.
  static void store_values(uint32_t* out, const Kv* const* keys, const float*, int64_t n) {
    for (int64_t c = 0; c < kPanelRows; c += V::kWidth) {
      const int64_t lanes = most<V>(int64_t{0}, least<V, int64_t>(V::kWidth, n - c));
      V::store_words(out + c, *keys != nullptr && lanes > 0 ? load_words(*keys + c, 1.0F, 0, 0, lanes) : V::zero_words(), V::kWidth);
    }
  }
  /// Weights of a step of a lane's keys as a word.
  static typename V::I step_word(const typename V::F* weights) { return V::as_words(weights[0]); }
  /// Weights of two vectors of neighbouring keys as words in order.
  static void store_weights(uint32_t* out, typename V::F a, typename V::F b) {
    V::store_words(out, V::as_words(a), V::kWidth);
    V::store_words(out + V::kWidth, V::as_words(b), V::kWidth);
  }
};

/// bf16 products of bf16 keys and values; queries and softmax weights are rounded to bf16 (the sum is of the rounded ones).
template <class V>
struct PairKv {
  using Kv = uint16_t;
  using Words = PairWords<V>;
  using Plain = PairKv;
  static constexpr bool kScaled = false;

  static typename V::I load_words(const Kv* p, float, int64_t dim, int64_t step, int64_t n) {
    return V::load_pairs(p + 2 * step, least<V>(2 * n, dim - 2 * step));
  }
  [[gnu::always_inline]] static typename V::I query_words(const float* p, int64_t dim, int64_t step, int64_t n) {
    const int64_t values = least<V>(2 * n, dim - 2 * step);
    if (values == 2 * V::kWidth) return V::pack_pairs(V::load(p + 2 * step), V::load(p + 2 * step + V::kWidth));
    return pair_words<V, F32Source<V>>(p + 2 * step, values);
  }
  static void store_values(uint32_t* out, const Kv* const* keys, const float*, int64_t n) {
    const typename V::I even = keys[0] != nullptr ? V::load_pairs(keys[0], n) : V::zero_words();
    const typename V::I odd = keys[1] != nullptr ? V::load_pairs(keys[1], n) : V::zero_words();
    store_interleaved(out, even, odd);
  }
  static void store_interleaved(uint32_t* out, typename V::I even, typename V::I odd) {
    typename V::I low, high;
    V::interleave(even, odd, low, high);
    V::store_words(out, low, V::kWidth);
    V::store_words(out + V::kWidth, high, V::kWidth);
  }
  static typename V::I step_word(const typename V::F* weights) { return V::pair_lanes(weights[0], weights[1]); }
  static void store_weights(uint32_t* out, typename V::F a, typename V::F b) { V::store_words(out, V::pack_pairs(a, b), V::kWidth); }
};

}  // namespace lamina::kernels::vec
