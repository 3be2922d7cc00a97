#pragma once
// Quantisation of activations. Every operation is exact or rounds once as IEEE says, so that all paths give the same codes.

#include "kernels/quantised.h"
#include "kernels/vector/rows.h"

namespace lamina::kernels::vec {

/// The largest |x| of a run. As integers the bits of floats without sign are ordered like the floats, NaN above all.
template <class V>
float run_maximum(const float* x, int64_t count) {
  typename V::I best = V::zero_words();
  each_vector<V>(count, [&](int64_t c, auto lanes) {
    best = V::max_words(best, V::both(V::as_words(load<V>(x + c, lanes)), V::set1_word(0x7FFFFFFF)));
  });
  uint32_t lanes[V::kWidth];
  V::store_words(lanes, best, V::kWidth);
  uint32_t most = 0;
  for (const uint32_t lane : lanes) most = lane > most ? lane : most;
  return __builtin_bit_cast(float, most);
}

template <class V>
void run_maxima(ConstF32View x, Run<int32_t> run_end, F32View maxima) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t run = 0, begin = 0; run < run_end.size; begin = run_end.data[run++])
      maxima.data[r * maxima.stride + run] = run_maximum<V>(x.data + r * x.stride + begin, run_end.data[run] - begin);
}

/// The number of an 8-bit float nearest to v, saturating. With m mantissa bits, adding 1.5 * 2^(e + 23 - m) leaves m bits of a number in
/// [2^e, 2^(e + 1)); numbers below the least normal one have its last place.
template <class V>
typename V::F round_float8(typename V::F v, float largest, float least_normal, float shift_of_one) {
  v = V::max(V::set1(-largest), V::min(V::set1(largest), v));  // the second operand is kept when it is NaN
  const typename V::F power = V::as_floats(V::both(V::as_words(v), V::set1_word(0x7F800000)));
  const typename V::F shift = V::mul(V::max(V::set1(least_normal), power), V::set1(shift_of_one));
  const typename V::I sign = V::both(V::as_words(v), V::set1_word(0x80000000));  // of a zero
  return V::as_floats(V::either(V::as_words(V::sub(V::add(v, shift), shift)), sign));
}

template <class V>
typename V::F round_e4m3(typename V::F v) {
  return round_float8<V>(v, 448.0F, 0x1p-6F, 0x1.8p20F);
}
template <class V>
typename V::F round_e5m2(typename V::F v) {
  return round_float8<V>(v, 57344.0F, 0x1p-14F, 0x1.8p21F);
}

/// The integer nearest to v within [-128, 127], in words.
template <class V>
typename V::I nearest_int8(typename V::F v) {
  return V::to_nearest(V::max(V::set1(-128.0F), V::min(V::set1(127.0F), v)));
}

template <class V>
void quantise_run(const float* x, int64_t count, float scale, uint16_t* out) {
  const typename V::F s = V::set1(scale);
  each_vector<V>(count, [&](int64_t c, auto lanes) { store<V>(out + c, round_e4m3<V>(V::div(load<V>(x + c, lanes), s)), lanes); });
}

template <class V>
void quantise_run(const float* x, int64_t count, float scale, uint8_t* out) {
  const typename V::F s = V::set1(scale);
  for (int64_t c = 0; c < count; c += V::kWidth) {
    const int64_t n = least<V>(V::kWidth, count - c);
    const typename V::F v = V::div(n == V::kWidth ? V::load(x + c) : V::load_n(x + c, n), s);
    V::store_bytes(out + c, V::add_words(nearest_int8<V>(v), V::set1_word(128)), n);
  }
}

template <class V>
void quantise(ConstF32View x, Run<int32_t> run_end, ConstF32View scales, MutableActivation out) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t run = 0, begin = 0; run < run_end.size; begin = run_end.data[run++]) {
      const float* row = x.data + r * x.stride + begin;
      const int64_t count = run_end.data[run] - begin;
      const float scale = scales.data[r * scales.stride + run];
      if (out.dtype == DType::kBF16)
        quantise_run<V>(row, count, scale, static_cast<uint16_t*>(out.data) + r * out.stride + begin);
      else
        quantise_run<V>(row, count, scale, static_cast<uint8_t*>(out.data) + r * out.stride + begin);
    }
}

}  // namespace lamina::kernels::vec
