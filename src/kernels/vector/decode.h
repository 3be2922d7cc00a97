#pragma once
// From words of codes (words.h) to what the dot products take: floats, pairs of bf16, or four signed bytes; zeros subtracted, exactly.

#include "kernels/vector/lanes.h"
#include "kernels/words.h"

namespace lamina::kernels::vec {

/// A number known to the compiler, for instructions that shift by a constant.
template <int N>
struct Number {
  static constexpr int value = N;
};
/// body(Number<0>), ..., body(Number<N - 1>).
template <class V, int N, class Body>
[[gnu::always_inline]] inline void unrolled(Body&& body) {
  if constexpr (N > 0) {
    unrolled<V, N - 1>(body);
    body(Number<N - 1>{});
  }
}

/// The byte in the low bits of each word (others are ignored) as E4M3: sign, exponent and mantissa moved to where a float has them, then
/// 2^120 for the difference of the biases, which is exact for subnormal numbers too.
template <class V>
typename V::F e4m3(typename V::I word) {
  const typename V::I fields = V::both(V::template shift_right_signed<4>(V::template shift_left<24>(word)), V::set1_word(0x87F00000));
  const typename V::I nan = V::equal_words(V::both(word, V::set1_word(0x7F)), V::set1_word(0x7F));
  return V::as_floats(V::either(V::as_words(V::mul(V::as_floats(fields), V::set1(0x1p120F))), nan));
}

/// Code number kIndex of each word as a float. `zero`: its zero, for codes that have one.
template <class V, Code kCode, int kIndex>
typename V::F decode_float(typename V::I word, typename V::F zero) {
  constexpr int kShift = code_shift(kCode, kIndex);
  const typename V::I code = V::template shift_right<kShift>(word);
  if constexpr (kCode == Code::kInt8) return V::to_float(V::template shift_right_signed<24>(V::template shift_left<24 - kShift>(word)));
  if constexpr (kCode == Code::kUInt8) return V::sub(V::to_float(V::both(code, V::set1_word(0xFF))), zero);
  if constexpr (kCode == Code::kInt4) return V::sub(V::to_float(V::both(code, V::set1_word(0xF))), zero);
  if constexpr (kCode == Code::kFp8E4m3) return e4m3<V>(code);
  if constexpr (kCode == Code::kFp4E2m1) return V::e2m1(code);
}

// A decoder gives kSteps vectors of words, a step of the product each, and knows how it wants zeros: prepare() takes them as integers.

template <class V, Code kCode>
struct FloatDecoder {
  static constexpr int kSteps = word_codes(kCode);
  static typename V::I prepare(typename V::I zero) { return V::as_words(V::to_float(zero)); }
  static void decode(typename V::I word, typename V::I zero, typename V::I (&steps)[kSteps]) {
    unrolled<V, kSteps>([&](auto i) __attribute__((always_inline)) {
      steps[i.value] = V::as_words(decode_float<V, kCode, i.value>(word, V::as_floats(zero)));
    });
  }
};

/// Words of two bf16, k in the lower half. All levels are exact in bf16: the lower bits of their floats are zeros.
template <class V, Code kCode>
struct PairDecoder {
  static constexpr int kSteps = word_codes(kCode) / 2;
  static typename V::I prepare(typename V::I zero) {
    if constexpr (kCode == Code::kInt4) return V::repeat_byte(V::sub_words(V::set1_word(16), zero));
    return V::as_words(V::to_float(zero));
  }
  static void decode(typename V::I word, typename V::I zero, typename V::I (&steps)[kSteps]) {
    if constexpr (kCode == Code::kInt4) {
      V::int4_pairs(word, zero, steps);
    } else if constexpr (kCode == Code::kFp4E2m1) {
      V::e2m1_pairs(word, steps);
    } else if constexpr (kCode == Code::kFp8E4m3) {
      V::e4m3_pairs(word, steps);
    } else {
      unrolled<V, kSteps>([&](auto i) __attribute__((always_inline)) {
        const auto even = V::as_words(decode_float<V, kCode, 2 * i.value>(word, V::as_floats(zero)));
        const auto odd = V::as_words(decode_float<V, kCode, 2 * i.value + 1>(word, V::as_floats(zero)));
        steps[i.value] = V::either(V::template shift_right<16>(even), odd);
      });
    }
  }
};

/// Words of four signed bytes.
template <class V, Code kCode>
struct ByteDecoder {
  static_assert(kCode == Code::kInt8 || kCode == Code::kInt4);
  static constexpr int kSteps = word_codes(kCode) / 4;
  static typename V::I prepare(typename V::I zero) { return V::repeat_byte(zero); }
  static void decode(typename V::I word, typename V::I zero, typename V::I (&steps)[kSteps]) {
    if constexpr (kCode == Code::kInt8) {
      steps[0] = word;
    } else {
      const typename V::I low = V::set1_word(0x0F0F0F0F);
      steps[0] = V::sub_bytes(V::both(word, low), zero);
      steps[1] = V::sub_bytes(V::both(V::template shift_right<4>(word), low), zero);
    }
  }
};

// --- factors of a run -----------------------------------------------------------------------------------------------------------------

/// Scales of kWidth rows of a panel from index `i` on.
template <class V>
typename V::F load_scales(const CodedMatrix& w, int64_t i) {
  switch (w.scale_dtype) {
    case DType::kF32:
      return V::load(static_cast<const float*>(w.scales) + i);
    case DType::kF16:
      return V::load_f16(static_cast<const uint16_t*>(w.scales) + i);
    case DType::kBF16:
      return V::load_bf16(static_cast<const uint16_t*>(w.scales) + i);
    case DType::kF8E4M3:
      return e4m3<V>(V::load_bytes(static_cast<const uint8_t*>(w.scales) + i));
    default: {  // E8M0; its 0 is 2^-127, a subnormal float
      const typename V::I bits = V::load_bytes(static_cast<const uint8_t*>(w.scales) + i);
      const typename V::F power = V::as_floats(V::template shift_left<23>(bits));
      return V::select_less(bits, V::set1_word(1), V::as_floats(V::set1_word(0x00400000)), power);
    }
  }
}

/// Zeros of kWidth rows of a panel from index `i` on, as integers.
template <class V>
typename V::I load_zeros(const CodedMatrix& w, int64_t i) {
  return w.zeros != nullptr ? V::load_bytes(w.zeros + i) : V::set1_word(static_cast<uint32_t>(w.zero));
}

}  // namespace lamina::kernels::vec
