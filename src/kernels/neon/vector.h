#pragma once
// The vector operations of AArch64 with the dot product of bytes (ARMv8.2). A vector is two registers, as wide as one of AVX2. Each file
// of this folder has its own copy, in an unnamed namespace (see vector/lanes.h).

#include <arm_neon.h>

#include "kernels/vector/coded_tile.h"
#include "kernels/vector/kv8.h"

namespace lamina::kernels {
namespace {

constexpr uint32_t kMasks[16] = {~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U};

struct Neon {
  struct F {
    float32x4_t low, high;
  };
  struct I {
    uint32x4_t low, high;
  };
  using Bf16Op = vec::PairExpand<Neon, uint16_t>;
  using Bf16Kv = vec::FloatKv<Neon, uint16_t>;
  template <class Bytes>
  using Kv8 = vec::FloatKv8<Neon, Bytes>;
  using Bf16Product = vec::FloatProduct<Neon, uint16_t>;
  using Int4Product = vec::ByteProduct<Neon>;
  static constexpr int64_t kWidth = 8;
  static constexpr int kRegisters = 14;  // of 16 pairs: gcc 12 moves loads ahead, and with more it spills
  static constexpr int kTileRows = 5;    // 10 accumulators and 2 vectors of weights; both halves of a broadcast are one register
  static constexpr int kExpandRows = 5;
  static constexpr int kByteRows = 5;
  static constexpr int kKeptRows = 3;  // beside 6 totals
  static constexpr int kKeptByteRows = 3;
  static constexpr int kTileVectors = 2;
  static constexpr int kFewRows = 2;
  static constexpr int kFewByteRows = 2;
  static constexpr int kTwoPanelRows = 0;
  static constexpr int kWholePanelRows = 2;  // 8 accumulators and 4 vectors of weights
  static constexpr int kMultiplyAddFlops = 16;

  static I words_at(const void* p) {
    const auto* bytes = static_cast<const uint8_t*>(p);
    return {vreinterpretq_u32_u8(vld1q_u8(bytes)), vreinterpretq_u32_u8(vld1q_u8(bytes + 16))};
  }
  /// All bits in the first n lanes.
  static I mask(int64_t n) { return words_at(kMasks + 8 - n); }
  static int32x4_t as_signed(uint32x4_t v) { return vreinterpretq_s32_u32(v); }
  static uint32x4_t as_unsigned(int32x4_t v) { return vreinterpretq_u32_s32(v); }

  // floats
  static F zero() { return set1(0.0F); }
  static F set1(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static F load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static F load_n(const float* p, int64_t n) {
    float buffer[8] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n) * 4);
    return load(buffer);
  }
  static void store(float* p, F v) { vst1q_f32(p, v.low), vst1q_f32(p + 4, v.high); }
  static void store_n(float* p, F v, int64_t n) {
    float buffer[8];
    store(buffer, v);
    __builtin_memcpy(p, buffer, static_cast<size_t>(n) * 4);
  }
  static F broadcast(const float* p) { return set1(*p); }
  static F add(F a, F b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
  static F sub(F a, F b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
  static F mul(F a, F b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
  static F div(F a, F b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }
  static F fma(F a, F b, F c) { return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)}; }
  static F fnma(F a, F b, F c) { return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)}; }  // c - a * b
  static float32x4_t max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static float32x4_t min4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F max(F a, F b) { return {max4(a.low, b.low), max4(a.high, b.high)}; }  // b when either is NaN
  static F min(F a, F b) { return {min4(a.low, b.low), min4(a.high, b.high)}; }
  static F round(F v) { return {vrndnq_f32(v.low), vrndnq_f32(v.high)}; }
  static F power_of_two(I n) { return as_floats(shift_left<23>(add_words(n, set1_word(127)))); }
  /// v * 2^n for integral |n| < 252, in two steps so that both factors are normal numbers.
  static F scale(F v, F n) {
    const I whole = to_nearest(n);
    const I half = shift_right_signed<1>(whole);
    return mul(mul(v, power_of_two(half)), power_of_two(sub_words(whole, half)));
  }
  static F first(F v, int64_t n) { return as_floats(both(as_words(v), mask(n))); }
  static float lane0(F v) { return vgetq_lane_f32(v.low, 0); }
  static bool any_equal(F a, F b) { return vmaxvq_u32(vorrq_u32(vceqq_f32(a.low, b.low), vceqq_f32(a.high, b.high))) != 0; }

  static float sum(F v) {
    const float32x4_t b = vaddq_f32(v.low, v.high);
    const float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
  }
  static float max_lane(F v) {
    const float32x4_t b = max4(v.low, v.high);
    const float32x4_t c = max4(b, vextq_f32(b, b, 2));
    return vgetq_lane_f32(max4(c, vextq_f32(c, c, 1)), 0);
  }

  // bf16 and f16
  static uint16x8_t load16_n(const uint16_t* p, int64_t n) {
    if (n == kWidth) return vld1q_u16(p);
    uint16_t buffer[8] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n) * 2);
    return vld1q_u16(buffer);
  }
  static void store16_n(uint16_t* p, uint16x8_t v, int64_t n) {
    if (n == kWidth) return vst1q_u16(p, v);
    uint16_t buffer[8];
    vst1q_u16(buffer, v);
    __builtin_memcpy(p, buffer, static_cast<size_t>(n) * 2);
  }
  static F expand(uint16x8_t v) { return as_floats(I{vshll_n_u16(vget_low_u16(v), 16), vshll_high_n_u16(v, 16)}); }
  static F expand_f16(uint16x8_t v) {
    const float16x8_t halves = vreinterpretq_f16_u16(v);
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
  }
  /// Words whose low half is v rounded to bf16, to nearest even; NaN stays NaN.
  static uint32x4_t round_word(float32x4_t v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrq_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16);
  }
  static uint16x8_t to_bf16(F v) { return vmovn_high_u32(vmovn_u32(round_word(v.low)), round_word(v.high)); }
  static F load_bf16(const uint16_t* p) { return expand(vld1q_u16(p)); }
  static F load_bf16_n(const uint16_t* p, int64_t n) { return expand(load16_n(p, n)); }
  static void store_bf16(uint16_t* p, F v) { vst1q_u16(p, to_bf16(v)); }
  static void store_bf16_n(uint16_t* p, F v, int64_t n) { store16_n(p, to_bf16(v), n); }
  static F load_f16(const uint16_t* p) { return expand_f16(vld1q_u16(p)); }
  static F load_f16_n(const uint16_t* p, int64_t n) { return expand_f16(load16_n(p, n)); }
  static void store_f16(uint16_t* p, F v, int64_t n) {
    store16_n(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high)), n);
  }
  static float f16_to_float(uint16_t h) { return lane0(expand_f16(vdupq_n_u16(h))); }
  static F load_weights(const float* p) { return load(p); }
  static F load_weights(const uint16_t* p) { return load_f16(p); }

  // words: two bf16 each
  static I zero_words() { return set1_word(0); }
  static I load_words(const void* p) { return words_at(p); }
  static void store_words(void* p, I v, int64_t n) {
    uint8_t buffer[32];
    uint8_t* to = n == kWidth ? static_cast<uint8_t*>(p) : buffer;
    vst1q_u8(to, vreinterpretq_u8_u32(v.low)), vst1q_u8(to + 16, vreinterpretq_u8_u32(v.high));
    if (n != kWidth) __builtin_memcpy(p, buffer, static_cast<size_t>(n) * 4);
  }
  static I load_pairs(const uint16_t* p, int64_t n) {
    if (n == 2 * kWidth) return words_at(p);
    uint16_t buffer[16] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n) * 2);
    return words_at(buffer);
  }
  static I pack_pairs(F low, F high) { return {vreinterpretq_u32_u16(to_bf16(low)), vreinterpretq_u32_u16(to_bf16(high))}; }
  static F low_half(I v) { return as_floats(shift_left<16>(v)); }
  static F high_half(I v) { return as_floats(both(v, set1_word(0xFFFF0000))); }
  static I as_words(F v) { return {vreinterpretq_u32_f32(v.low), vreinterpretq_u32_f32(v.high)}; }
  static F as_floats(I v) { return {vreinterpretq_f32_u32(v.low), vreinterpretq_f32_u32(v.high)}; }
  static I either(I a, I b) { return {vorrq_u32(a.low, b.low), vorrq_u32(a.high, b.high)}; }
  static I broadcast_word(uint16_t low) { return set1_word(low); }
  static I broadcast_pair(const uint16_t* p) {
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return set1_word(word);
  }
  static F broadcast_bf16(const uint16_t* p) { return set1(__builtin_bit_cast(float, static_cast<uint32_t>(*p) << 16)); }
  static F bf16_multiply_add(F sum, F a, F b) { return fma(a, b, sum); }
  static void forget(F& v) { __asm__ volatile("" : "+w"(v.low), "+w"(v.high)); }

  // words: integers and codes
  static I set1_word(uint32_t v) { return {vdupq_n_u32(v), vdupq_n_u32(v)}; }
  static I both(I a, I b) { return {vandq_u32(a.low, b.low), vandq_u32(a.high, b.high)}; }
  static I add_words(I a, I b) { return {vaddq_u32(a.low, b.low), vaddq_u32(a.high, b.high)}; }
  static I sub_words(I a, I b) { return {vsubq_u32(a.low, b.low), vsubq_u32(a.high, b.high)}; }
  static I max_words(I a, I b) { return {vmaxq_u32(a.low, b.low), vmaxq_u32(a.high, b.high)}; }
  static uint32x4_t sub_bytes4(uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
  }
  static I sub_bytes(I a, I b) { return {sub_bytes4(a.low, b.low), sub_bytes4(a.high, b.high)}; }
  template <int N>
  static I shift_left(I v) {
    return {vshlq_n_u32(v.low, N), vshlq_n_u32(v.high, N)};
  }
  template <int N>
  static I shift_right(I v) {
    if constexpr (N == 0)
      return v;  // which the instruction cannot say
    else
      return {vshrq_n_u32(v.low, N), vshrq_n_u32(v.high, N)};
  }
  template <int N>
  static I shift_right_signed(I v) {
    return {as_unsigned(vshrq_n_s32(as_signed(v.low), N)), as_unsigned(vshrq_n_s32(as_signed(v.high), N))};
  }
  static F to_float(I v) { return {vcvtq_f32_s32(as_signed(v.low)), vcvtq_f32_s32(as_signed(v.high))}; }
  static I to_nearest(F v) { return {as_unsigned(vcvtnq_s32_f32(v.low)), as_unsigned(vcvtnq_s32_f32(v.high))}; }
  /// All bits where equal, none elsewhere.
  static I equal_words(I a, I b) { return {vceqq_u32(a.low, b.low), vceqq_u32(a.high, b.high)}; }
  static F select_less(I a, I b, F yes, F no) {
    return {vbslq_f32(vcltq_s32(as_signed(a.low), as_signed(b.low)), yes.low, no.low),
            vbslq_f32(vcltq_s32(as_signed(a.high), as_signed(b.high)), yes.high, no.high)};
  }
  static I load_bytes(const uint8_t* p) {
    const uint16x8_t halves = vmovl_u8(vld1_u8(p));
    return {vmovl_u16(vget_low_u16(halves)), vmovl_high_u16(halves)};
  }
  static I load_bytes_n(const uint8_t* p, int64_t n) {
    uint8_t buffer[8] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n));
    return load_bytes(buffer);
  }
  static void store_bytes(uint8_t* p, I v, int64_t n) {
    uint8_t bytes[8];
    vst1_u8(bytes, vmovn_u16(vmovn_high_u32(vmovn_u32(v.low), v.high)));
    __builtin_memcpy(p, bytes, static_cast<size_t>(n));
  }
  /// The lowest byte of each word in all four.
  static I repeat_byte(I v) {
    const I ones = set1_word(0x01010101), lowest = both(v, set1_word(0xFF));
    return {vmulq_u32(lowest.low, ones.low), vmulq_u32(lowest.high, ones.high)};
  }
  /// Exponent and mantissa to where a float has them, then 2^126 for the difference of the biases, exact for the subnormal 0.5 too.
  static F e2m1(I v) {
    const F size = mul(as_floats(both(shift_left<22>(v), set1_word(0x01C00000))), set1(0x1p126F));
    return as_floats(either(as_words(size), both(shift_left<28>(v), set1_word(0x80000000))));
  }

  // words of four bytes: inputs lose the 128 they are biased by, so that both are signed
  static constexpr bool kBiasedBytes = false;
  using ByteInput = int8x16_t;
  using ByteWeight = I;
  static ByteInput byte_input(const uint8_t* p) {
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return vreinterpretq_s8_u32(vdupq_n_u32(word ^ 0x80808080));
  }
  static ByteWeight byte_weight(I word) { return word; }
  static uint32x4_t dot4(uint32x4_t sum, int8x16_t x, uint32x4_t w) {
    return as_unsigned(vdotq_s32(as_signed(sum), x, vreinterpretq_s8_u32(w)));
  }
  static I dot_bytes(I sum, ByteInput x, ByteWeight w) { return {dot4(sum.low, x, w.low), dot4(sum.high, x, w.high)}; }

  /// Inlined by force: gcc 12 takes a function that only prefetches for one without effect, and drops calls of it.
  [[gnu::always_inline]] static void prefetch(const void* p) { __builtin_prefetch(p); }

  static void transpose4(uint32x4_t& a, uint32x4_t& b, uint32x4_t& c, uint32x4_t& d) {
    const uint64x2_t ab_even = vreinterpretq_u64_u32(vtrn1q_u32(a, b)), ab_odd = vreinterpretq_u64_u32(vtrn2q_u32(a, b));
    const uint64x2_t cd_even = vreinterpretq_u64_u32(vtrn1q_u32(c, d)), cd_odd = vreinterpretq_u64_u32(vtrn2q_u32(c, d));
    a = vreinterpretq_u32_u64(vtrn1q_u64(ab_even, cd_even));
    b = vreinterpretq_u32_u64(vtrn1q_u64(ab_odd, cd_odd));
    c = vreinterpretq_u32_u64(vtrn2q_u64(ab_even, cd_even));
    d = vreinterpretq_u32_u64(vtrn2q_u64(ab_odd, cd_odd));
  }
  /// 8 x 8 words in place: the four blocks, two of which change places.
  [[gnu::always_inline]] static void transpose(I (&m)[8]) {
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      transpose4(m[i].low, m[i + 1].low, m[i + 2].low, m[i + 3].low);
      transpose4(m[i].high, m[i + 1].high, m[i + 2].high, m[i + 3].high);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t block = m[i].high;
      m[i].high = m[4 + i].low;
      m[4 + i].low = block;
    }
  }
};

}  // namespace
}  // namespace lamina::kernels
