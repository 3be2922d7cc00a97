#pragma once
// The vector operations that all AVX-512 paths share: they need F, BW, DQ and VL. Each file that includes this has its own copy, in an
// unnamed namespace and compiled with its folder's options (see lanes.h).

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc's own header, by design (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

namespace lamina::kernels {
namespace {

/// The first byte of each word four times.
struct FirstBytes {
  uint8_t order[64];
  constexpr FirstBytes() : order{} {
    for (int i = 0; i < 64; ++i) order[i] = static_cast<uint8_t>(i % 16 / 4 * 4);
  }
};
alignas(64) constexpr FirstBytes kFirstBytes;
alignas(64) constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

struct Lanes512 {
  using F = __m512;
  using I = __m512i;
  static constexpr int64_t kWidth = 16;
  static constexpr int kRegisters = 32;
  static constexpr int kTileRows = 12;  // 24 accumulators, 2 vectors of weights and a broadcast of 32 registers
  static constexpr int kExpandRows = 12;
  static constexpr int kKeptRows = 7;  // beside 14 totals
  static constexpr int kTileVectors = 2;
  static constexpr int kFewRows = 4;  // 8 sums and 8 totals beside what decodes
  static constexpr int kTwoPanelRows = 2;

  static __mmask16 mask(int64_t n) { return static_cast<__mmask16>((1U << n) - 1); }
  static __mmask32 mask32(int64_t n) { return static_cast<__mmask32>((uint64_t{1} << n) - 1); }

  // floats
  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void store_n(float* p, F v, int64_t n) { _mm512_mask_storeu_ps(p, mask(n), v); }
  static F broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
  static F max(F a, F b) { return _mm512_max_ps(a, b); }              // b when either is NaN
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F round(F v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F scale(F v, F n) { return _mm512_scalef_ps(v, n); }  // v * 2^n
  static F first(F v, int64_t n) { return _mm512_maskz_mov_ps(mask(n), v); }
  static float lane0(F v) { return _mm512_cvtss_f32(v); }
  static bool any_equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) != 0; }

  static float sum(F v) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  static float max_lane(F v) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }

  // bf16 and f16
  static F expand(__m256i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)); }
  static F load_bf16(const uint16_t* p) { return expand(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load_bf16_n(const uint16_t* p, int64_t n) { return expand(_mm256_maskz_loadu_epi16(mask(n), p)); }
  static F load_f16(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load_f16_n(const uint16_t* p, int64_t n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(n), p)); }
  static void store_f16(uint16_t* p, F v, int64_t n) {
    _mm256_mask_storeu_epi16(p, mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static float f16_to_float(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
  static F load_weights(const float* p) { return _mm512_load_ps(p); }
  static F load_weights(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p))); }

  // words: two bf16 each
  static I zero_words() { return _mm512_setzero_si512(); }
  static I load_words(const void* p) { return _mm512_loadu_si512(p); }
  static void store_words(void* p, I v, int64_t n) { _mm512_mask_storeu_epi32(p, mask(n), v); }
  static I load_pairs(const uint16_t* p, int64_t n) { return n == 2 * kWidth ? load_words(p) : _mm512_maskz_loadu_epi16(mask32(n), p); }
  static F low_half(I v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
  static F high_half(I v) { return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-65536))); }
  static I as_words(F v) { return _mm512_castps_si512(v); }
  static F as_floats(I v) { return _mm512_castsi512_ps(v); }
  static I either(I a, I b) { return _mm512_or_si512(a, b); }
  static I broadcast_word(uint16_t low) { return _mm512_set1_epi32(low); }
  static I broadcast_pair(const uint16_t* p) {
    int word;
    __builtin_memcpy(&word, p, sizeof(word));
    return _mm512_set1_epi32(word);
  }
  static void forget(F& v) { __asm__ volatile("" : "+v"(v)); }

  // words: integers and codes
  static I set1_word(uint32_t v) { return _mm512_set1_epi32(static_cast<int>(v)); }
  static I both(I a, I b) { return _mm512_and_si512(a, b); }
  static I add_words(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub_words(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I max_words(I a, I b) { return _mm512_max_epu32(a, b); }
  static I sub_bytes(I a, I b) { return _mm512_sub_epi8(a, b); }
  template <int N>
  static I shift_left(I v) {
    return _mm512_slli_epi32(v, N);
  }
  template <int N>
  static I shift_right(I v) {
    return _mm512_srli_epi32(v, N);
  }
  template <int N>
  static I shift_right_signed(I v) {
    return _mm512_srai_epi32(v, N);
  }
  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static I to_nearest(F v) { return _mm512_cvtps_epi32(v); }
  /// All bits where equal, none elsewhere.
  static I equal_words(I a, I b) { return _mm512_maskz_set1_epi32(_mm512_cmpeq_epi32_mask(a, b), -1); }
  static F select_less(I a, I b, F yes, F no) { return _mm512_mask_blend_ps(_mm512_cmplt_epi32_mask(a, b), no, yes); }
  static I load_bytes(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static I load_bytes_n(const uint8_t* p, int64_t n) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask(n), p)); }
  static void store_bytes(uint8_t* p, I v, int64_t n) { _mm512_mask_cvtepi32_storeu_epi8(p, mask(n), v); }
  /// The lowest byte of each word in all four.
  static I repeat_byte(I v) { return _mm512_shuffle_epi8(v, _mm512_load_si512(kFirstBytes.order)); }

  static F e2m1(I v) { return _mm512_permutexvar_ps(v, _mm512_load_ps(kE2m1)); }
  /// Inlined by force: gcc 12 takes a function that only prefetches for one without effect, and drops calls of it.
  [[gnu::always_inline]] static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

  /// 16 x 16 words in place: pairs of rows, then of pairs, within 128-bit lanes; then the lanes themselves.
  [[gnu::always_inline]] static void transpose(I (&m)[16]) {
    I t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      const I a = _mm512_unpacklo_epi32(m[i], m[i + 1]);
      const I b = _mm512_unpackhi_epi32(m[i], m[i + 1]);
      const I c = _mm512_unpacklo_epi32(m[i + 2], m[i + 3]);
      const I d = _mm512_unpackhi_epi32(m[i + 2], m[i + 3]);
      t[i] = _mm512_unpacklo_epi64(a, c);
      t[i + 1] = _mm512_unpackhi_epi64(a, c);
      t[i + 2] = _mm512_unpacklo_epi64(b, d);
      t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {  // t[4 q + i], 128-bit lane l: column 4 l + i of rows 4 q .. 4 q + 3
      const I a = _mm512_shuffle_i32x4(t[i], t[4 + i], 0x88);
      const I b = _mm512_shuffle_i32x4(t[i], t[4 + i], 0xDD);
      const I c = _mm512_shuffle_i32x4(t[8 + i], t[12 + i], 0x88);
      const I d = _mm512_shuffle_i32x4(t[8 + i], t[12 + i], 0xDD);
      m[i] = _mm512_shuffle_i32x4(a, c, 0x88);
      m[8 + i] = _mm512_shuffle_i32x4(a, c, 0xDD);
      m[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
      m[12 + i] = _mm512_shuffle_i32x4(b, d, 0xDD);
    }
  }
};

}  // namespace
}  // namespace lamina::kernels
