#pragma once
// The vector operations of AVX2 with FMA and F16C. Each file of this folder has its own copy, in an unnamed namespace (see
// vector/lanes.h).

#include <immintrin.h>

#include "kernels/vector/coded_tile.h"
#include "kernels/vector/kv8.h"

namespace lamina::kernels {
namespace {

constexpr int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Avx2 {
  using F = __m256;
  using I = __m256i;
  using Bf16Op = vec::PairExpand<Avx2, uint16_t>;
  using Bf16Kv = vec::FloatKv<Avx2, uint16_t>;
  template <class Bytes>
  using Kv8 = vec::FloatKv8<Avx2, Bytes>;
  using Bf16Product = vec::FloatProduct<Avx2, uint16_t>;
  using Int4Product = vec::NibbleProduct<Avx2>;
  static constexpr int64_t kWidth = 8;
  static constexpr int kRegisters = 16;
  static constexpr int kTileRows = 6;  // 12 accumulators, 2 vectors of weights and a broadcast of 16 registers
  static constexpr int kExpandRows = 5;
  static constexpr int kByteRows = 4;  // operands of byte products are pairs of vectors
  static constexpr int kKeptRows = 3;  // beside 6 totals
  static constexpr int kKeptByteRows = 2;
  static constexpr int kKeptNibbleRows = 3;
  static constexpr int kTileVectors = 2;
  static constexpr int kFewRows = 2;  // 4 sums and 4 totals beside what decodes
  static constexpr int kFewByteRows = 2;
  static constexpr int kTwoPanelRows = 0;
  static constexpr int kWholePanelRows = 2;  // 8 accumulators and 4 vectors of weights
  static constexpr int kMultiplyAddFlops = 16;

  static I mask(int64_t n) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - n)); }

  // floats
  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load_n(const float* p, int64_t n) { return _mm256_maskload_ps(p, mask(n)); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static void store_n(float* p, F v, int64_t n) { _mm256_maskstore_ps(p, mask(n), v); }
  static F broadcast(const float* p) { return _mm256_set1_ps(*p); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
  static F max(F a, F b) { return _mm256_max_ps(a, b); }              // b when either is NaN
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F round(F v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F power_of_two(I n) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23)); }
  /// v * 2^n for integral |n| < 252, in two steps so that both factors are normal numbers.
  static F scale(F v, F n) {
    const I whole = _mm256_cvtps_epi32(n);
    const I half = _mm256_srai_epi32(whole, 1);
    return mul(mul(v, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }
  static F first(F v, int64_t n) { return _mm256_and_ps(v, _mm256_castsi256_ps(mask(n))); }
  static float lane0(F v) { return _mm256_cvtss_f32(v); }
  static bool any_equal(F a, F b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) != 0; }

  static float sum(F v) {
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  static float max_lane(F v) {
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }

  // bf16 and f16
  static __m128i load16(const uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static __m128i load16_n(const uint16_t* p, int64_t n) {
    if (n == kWidth) return load16(p);
    uint16_t buffer[8] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n) * 2);
    return load16(buffer);
  }
  static void store16_n(uint16_t* p, __m128i v, int64_t n) {
    if (n == kWidth) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
    uint16_t buffer[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(buffer), v);
    __builtin_memcpy(p, buffer, static_cast<size_t>(n) * 2);
  }
  static F expand(__m128i v) { return low_half(_mm256_cvtepu16_epi32(v)); }
  /// Words whose low half is v rounded to bf16, to nearest even; NaN stays NaN.
  static I round_words(F v) {
    const I bits = _mm256_castps_si256(v);
    const I odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const I rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const I quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const F nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan)), 16);
  }
  static __m128i to_bf16(F v) {
    const I words = round_words(v);
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  static F load_bf16(const uint16_t* p) { return expand(load16(p)); }
  static F load_bf16_n(const uint16_t* p, int64_t n) { return expand(load16_n(p, n)); }
  static void store_bf16(uint16_t* p, F v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16(v)); }
  static void store_bf16_n(uint16_t* p, F v, int64_t n) { store16_n(p, to_bf16(v), n); }
  static F load_f16(const uint16_t* p) { return _mm256_cvtph_ps(load16(p)); }
  static F load_f16_n(const uint16_t* p, int64_t n) { return _mm256_cvtph_ps(load16_n(p, n)); }
  static void store_f16(uint16_t* p, F v, int64_t n) { store16_n(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), n); }
  static float f16_to_float(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
  static F load_weights(const float* p) { return _mm256_load_ps(p); }
  static F load_weights(const uint16_t* p) { return load_f16(p); }

  // words: two bf16 each
  static I zero_words() { return _mm256_setzero_si256(); }
  static I load_words(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store_words(void* p, I v, int64_t n) {
    if (n == kWidth) return _mm256_storeu_si256(static_cast<__m256i*>(p), v);
    _mm256_maskstore_epi32(static_cast<int*>(p), mask(n), v);
  }
  static I load_pairs(const uint16_t* p, int64_t n) {
    if (n == 2 * kWidth) return load_words(p);
    uint16_t buffer[16] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n) * 2);
    return load_words(buffer);
  }
  static I pack_pairs(F low, F high) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(round_words(low), round_words(high)), _MM_SHUFFLE(3, 1, 2, 0));
  }
  static F low_half(I v) { return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)); }
  static F high_half(I v) { return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(-65536))); }
  static I as_words(F v) { return _mm256_castps_si256(v); }
  static F as_floats(I v) { return _mm256_castsi256_ps(v); }
  static I either(I a, I b) { return _mm256_or_si256(a, b); }
  static I broadcast_word(uint16_t low) { return _mm256_set1_epi32(low); }
  static I broadcast_pair(const uint16_t* p) {
    int word;
    __builtin_memcpy(&word, p, sizeof(word));
    return _mm256_set1_epi32(word);
  }
  static F bf16_multiply_add(F sum, F a, F b) { return fma(a, b, sum); }
  static void forget(F& v) { __asm__ volatile("" : "+x"(v)); }

  // words: integers and codes
  static I set1_word(uint32_t v) { return _mm256_set1_epi32(static_cast<int>(v)); }
  static I both(I a, I b) { return _mm256_and_si256(a, b); }
  static I add_words(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub_words(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I max_words(I a, I b) { return _mm256_max_epu32(a, b); }
  static I sub_bytes(I a, I b) { return _mm256_sub_epi8(a, b); }
  template <int N>
  static I shift_left(I v) {
    return _mm256_slli_epi32(v, N);
  }
  template <int N>
  static I shift_right(I v) {
    return _mm256_srli_epi32(v, N);
  }
  template <int N>
  static I shift_right_signed(I v) {
    return _mm256_srai_epi32(v, N);
  }
  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static I to_nearest(F v) { return _mm256_cvtps_epi32(v); }
  /// All bits where equal, none elsewhere.
  static I equal_words(I a, I b) { return _mm256_cmpeq_epi32(a, b); }
  static F select_less(I a, I b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a))); }
  static I load_bytes(const uint8_t* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
  static I load_bytes_n(const uint8_t* p, int64_t n) {
    uint8_t buffer[8] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n));
    return load_bytes(buffer);
  }
  static void store_bytes(uint8_t* p, I v, int64_t n) {
    const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    uint8_t bytes[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), _mm_packus_epi16(halves, halves));
    __builtin_memcpy(p, bytes, static_cast<size_t>(n));
  }
  /// The lowest byte of each word in all four.
  static I repeat_byte(I v) {
    return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)));
  }
  static F e2m1(I v) {
    const F sizes = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
    return as_floats(either(as_words(_mm256_permutevar8x32_ps(sizes, v)), both(shift_left<28>(v), set1_word(0x80000000))));
  }
  static F broadcast_bf16(const uint16_t* p) {
    return as_floats(both(_mm256_set1_epi16(static_cast<int16_t>(*p)), _mm256_set1_epi32(-65536)));
  }

  // words of four bytes as two vectors of 16-bit numbers, bytes 0 and 2 and bytes 1 and 3: sums of bytes times bytes would saturate
  static constexpr bool kBiasedBytes = true;
  struct ByteInput {
    I even, odd;
  };
  using ByteWeight = ByteInput;
  static ByteInput unsigned_bytes(I word) { return {both(word, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(word, 8)}; }
  static I broadcast_bytes(const uint8_t* p) {
    int word;
    __builtin_memcpy(&word, p, sizeof(word));
    return _mm256_set1_epi32(word);
  }
  static ByteInput byte_input(const uint8_t* p) { return unsigned_bytes(broadcast_bytes(p)); }
  static ByteWeight byte_weight(I word) { return {_mm256_srai_epi16(_mm256_slli_epi16(word, 8), 8), _mm256_srai_epi16(word, 8)}; }
  static ByteInput bytes_of_128() { return {_mm256_set1_epi16(128), _mm256_set1_epi16(128)}; }
  static I dot_bytes(I sum, ByteInput x, ByteWeight w) {
    return add_words(sum, add_words(_mm256_madd_epi16(x.even, w.even), _mm256_madd_epi16(x.odd, w.odd)));
  }
  static I dot_nibbles(I sum, I x, I w) { return add_words(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1))); }

  /// Inlined by force: gcc 12 takes a function that only prefetches for one without effect, and drops calls of it.
  [[gnu::always_inline]] static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

  /// 8 x 8 words in place: pairs of rows, then of pairs, within 128-bit lanes; then the lanes themselves.
  [[gnu::always_inline]] static void transpose(I (&m)[8]) {
    I t[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      const I a = _mm256_unpacklo_epi32(m[i], m[i + 1]);
      const I b = _mm256_unpackhi_epi32(m[i], m[i + 1]);
      const I c = _mm256_unpacklo_epi32(m[i + 2], m[i + 3]);
      const I d = _mm256_unpackhi_epi32(m[i + 2], m[i + 3]);
      t[i] = _mm256_unpacklo_epi64(a, c);
      t[i + 1] = _mm256_unpackhi_epi64(a, c);
      t[i + 2] = _mm256_unpacklo_epi64(b, d);
      t[i + 3] = _mm256_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {  // t[4 q + i], 128-bit lane l: column 4 l + i of rows 4 q .. 4 q + 3
      m[i] = _mm256_permute2x128_si256(t[i], t[4 + i], 0x20);
      m[4 + i] = _mm256_permute2x128_si256(t[i], t[4 + i], 0x31);
    }
  }
};

}  // namespace
}  // namespace lamina::kernels
