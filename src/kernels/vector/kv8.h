#pragma once
// Keys and values in 8 bits: how they are written, and how attention expands them. The scale of a layer is a factor of scores and of the
// output (attention.h); the scale of a head of a slot is applied here.

#include "kernels/vector/attention_kv.h"
#include "kernels/vector/decode.h"
#include "kernels/vector/quantise.h"
#include "kernels/vector/rows.h"

namespace lamina::kernels::vec {

/// The byte in the low bits of each word as E5M2, which is the upper half of an f16.
template <class V>
typename V::F e5m2(typename V::I word) {
  using F = typename V::F;
  const typename V::I size = V::both(word, V::set1_word(0x7F));
  const typename V::I field = V::template shift_left<21>(size);
  const F normal = V::as_floats(V::add_words(field, V::set1_word((127 - 15) << 23)));
  const F subnormal = V::mul(V::to_float(size), V::set1(0x1p-16F));
  F value = V::select_less(size, V::set1_word(4), subnormal, normal);
  value = V::select_less(V::set1_word(0x7B), size, V::as_floats(V::either(field, V::set1_word(0x7F800000))), value);
  return V::as_floats(V::either(V::as_words(value), V::both(V::template shift_left<24>(word), V::set1_word(0x80000000))));
}

/// n <= kWidth bytes as words, zeros beyond.
template <class V>
typename V::I bytes_as_words(const uint8_t* p, int64_t n) {
  return n == V::kWidth ? V::load_bytes(p) : V::load_bytes_n(p, n);
}

// --- what a byte stands for -----------------------------------------------------------------------------------------------------------

template <class V>
struct E4m3Kv {
  static constexpr bool kScaled = false;
  static typename V::F floats(const uint8_t* p, int64_t n, float) { return e4m3<V>(bytes_as_words<V>(p, n)); }
  static typename V::I pairs(const uint8_t* p, int64_t n, float) { return V::e4m3_as_bf16(p, n); }
};

template <class V>
struct E5m2Kv {
  static constexpr bool kScaled = false;
  static typename V::F floats(const uint8_t* p, int64_t n, float) { return e5m2<V>(bytes_as_words<V>(p, n)); }
  static typename V::I pairs(const uint8_t* p, int64_t n, float) { return V::e5m2_as_bf16(p, n); }
};

template <class V>
struct Int8Kv {
  static constexpr bool kScaled = true;
  static typename V::F floats(const uint8_t* p, int64_t n, float scale) {
    const typename V::I word = V::template shift_right_signed<24>(V::template shift_left<24>(bytes_as_words<V>(p, n)));
    return V::mul(V::to_float(word), V::set1(scale));
  }
  static typename V::I pairs(const uint8_t* p, int64_t n, float scale) { return V::int8_as_bf16(p, n, scale); }
};

// --- for attention; see FloatKv and PairKv in attention_kv.h --------------------------------------------------------------------------

template <class V, class Bytes>
struct FloatKv8 : FloatKv<V, float> {
  using Kv = uint8_t;
  static constexpr bool kScaled = Bytes::kScaled;
  static typename V::I load_words(const Kv* p, float scale, int64_t dim, int64_t step, int64_t n) {
    (void)dim;
    return V::as_words(Bytes::floats(p + step, n, scale));
  }
  static void store_values(uint32_t* out, const Kv* const* keys, const float* scales, int64_t n) {
    for (int64_t c = 0; c < kPanelRows; c += V::kWidth) {
      const int64_t lanes = most<V>(int64_t{0}, least<V, int64_t>(V::kWidth, n - c));
      const bool some = *keys != nullptr && lanes > 0;
      V::store_words(out + c, some ? V::as_words(Bytes::floats(*keys + c, lanes, *scales)) : V::zero_words(), V::kWidth);
    }
  }
};

template <class V, class Bytes>
struct PairKv8 : PairKv<V> {
  using Kv = uint8_t;
  static constexpr bool kScaled = Bytes::kScaled;
  static typename V::I load_words(const Kv* p, float scale, int64_t dim, int64_t step, int64_t n) {
    return Bytes::pairs(p + 2 * step, least<V>(2 * n, dim - 2 * step), scale);
  }
  static void store_values(uint32_t* out, const Kv* const* keys, const float* scales, int64_t n) {
    const typename V::I even = keys[0] != nullptr ? Bytes::pairs(keys[0], n, scales[0]) : V::zero_words();
    const typename V::I odd = keys[1] != nullptr ? Bytes::pairs(keys[1], n, scales[1]) : V::zero_words();
    PairKv<V>::store_interleaved(out, even, odd);
  }
};

/// What a path multiplies best, and what rounds nothing.
template <class V>
struct PathKinds {
  using Bf16 = typename V::Bf16Kv;
  template <class Bytes>
  using Eight = typename V::template Kv8<Bytes>;
};
template <class V>
struct ExactKinds {
  using Bf16 = FloatKv<V, uint16_t>;
  template <class Bytes>
  using Eight = FloatKv8<V, Bytes>;
};

// --- writing --------------------------------------------------------------------------------------------------------------------------

/// Bytes of numbers that round_float8 left: kMantissa bits below an exponent of the given bias; NaN becomes 0x7F.
template <class V, int kMantissa, int kBias>
typename V::I float8_bits(typename V::F v) {
  const typename V::I bits = V::as_words(v);
  const typename V::I size = V::both(bits, V::set1_word(0x7FFFFFFF));
  const typename V::I normal = V::sub_words(V::template shift_right<23 - kMantissa>(size), V::set1_word((127 - kBias) << kMantissa));
  constexpr float kLast = static_cast<float>(1 << (kBias - 1 + kMantissa));  // one over the last place of subnormal numbers
  const typename V::I subnormal = V::to_nearest(V::mul(V::as_floats(size), V::set1(kLast)));
  const typename V::I least_normal = V::set1_word(static_cast<uint32_t>(127 - kBias + 1) << 23);
  typename V::F code = V::select_less(size, least_normal, V::as_floats(subnormal), V::as_floats(normal));
  code = V::select_less(V::set1_word(0x7F800000), size, V::as_floats(V::set1_word(0x7F)), code);
  return V::either(V::as_words(code), V::both(V::template shift_right<24>(bits), V::set1_word(0x80)));
}

/// One head, or several with one scale, in 8 bits.
template <class V>
void store_kv8_run(const float* x, int64_t count, DType dtype, float scale, uint8_t* out) {
  const typename V::F s = V::set1(scale);
  for (int64_t c = 0; c < count; c += V::kWidth) {
    const int64_t n = least<V>(V::kWidth, count - c);
    const typename V::F v = V::div(n == V::kWidth ? V::load(x + c) : V::load_n(x + c, n), s);
    if (dtype == DType::kF8E4M3)
      V::store_bytes(out + c, float8_bits<V, 3, 7>(round_e4m3<V>(v)), n);
    else if (dtype == DType::kF8E5M2)
      V::store_bytes(out + c, float8_bits<V, 2, 15>(round_e5m2<V>(v)), n);
    else
      V::store_bytes(out + c, V::both(nearest_int8<V>(v), V::set1_word(0xFF)), n);
  }
}

template <class V>
void store_kv8(ConstF32View x, Run<int64_t> slots, const KvTarget& target) {
  for (int64_t t = 0; t < slots.size; ++t) {
    const float* row = x.data + t * x.stride;
    uint8_t* out = static_cast<uint8_t*>(target.base) + slots.data[t] * target.slot_stride;
    if (target.scales == nullptr) {
      store_kv8_run<V>(row, x.cols, target.dtype, target.scale, out);
      continue;
    }
    float* scales = target.scales + slots.data[t] * target.scale_stride;
    for (int64_t c = 0; c < x.cols; c += target.head_dim, ++scales) {
      const float scale = run_maximum<V>(row + c, target.head_dim) / 127.0F;
      *scales = scale == 0.0F ? 1.0F : scale;
      store_kv8_run<V>(row + c, target.head_dim, target.dtype, *scales, out + c);
    }
  }
}

template <class V>
void store_kv(ConstF32View x, Run<int64_t> slots, KvTarget target) {
  if (target.dtype != DType::kF32 && target.dtype != DType::kBF16) return store_kv8<V>(x, slots, target);
  const MutableActivation pool{.dtype = target.dtype, .data = target.base, .stride = target.slot_stride};
  for (int64_t t = 0; t < slots.size; ++t)
    with_row<V>(pool, slots.data[t], [&](auto* o) { copy_row<V>(x.data + t * x.stride, x.cols, o); });
}

}  // namespace lamina::kernels::vec
