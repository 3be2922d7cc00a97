#pragma once
// The vector operations of AVX-512 (F, BW, DQ, VL) with the dot products of bf16 and of bytes (VNNI). Each file of this folder has its
// own copy, in an unnamed namespace (see vector/lanes.h).

#include "kernels/avx512f/lanes512.h"
#include "kernels/vector/coded_tile.h"
#include "kernels/vector/kv8.h"

namespace lamina::kernels {
namespace {

/// Lane i takes value i / 2 of a (even i) or of b (odd i); the second half continues.
struct InterleaveLanes {
  uint16_t lane[64];
  constexpr InterleaveLanes() : lane{} {
    for (int i = 0; i < 64; ++i) lane[i] = static_cast<uint16_t>(i / 2 + i % 2 * 32);
  }
};
alignas(64) constexpr InterleaveLanes kInterleaveLanes;

/// Lane i takes value i / 2 of the lower half (even i) or of the upper half (odd i).
struct PairLanes {
  uint16_t lane[32];
  constexpr PairLanes() : lane{} {
    for (int i = 0; i < 32; ++i) lane[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  }
};
alignas(64) constexpr PairLanes kPairLanes;

/// What codes stand for, in bf16.
struct CodeTables {
  uint16_t e4m3[128];  // without sign
  uint16_t e5m2[128];
  uint16_t e2m1[32];   // twice, so that the bit above a code may be anything
  uint16_t level[32];  // -16 .. 15
  constexpr CodeTables() : e4m3{}, e5m2{}, e2m1{}, level{} {
    for (int i = 0; i < 128; ++i) e4m3[i] = i == 0x7F ? 0x7FC0 : small_float(i, 3, 7);
    for (int i = 0; i < 128; ++i) e5m2[i] = i > 0x7C ? 0x7FC0 : i == 0x7C ? 0x7F80 : small_float(i, 2, 15);
    for (int i = 0; i < 32; ++i) e2m1[i] = static_cast<uint16_t>(small_float(i % 8, 1, 1) | i % 16 / 8 << 15);
    for (int i = 0; i < 32; ++i) level[i] = i < 16 ? static_cast<uint16_t>(whole(16 - i) | 0x8000) : whole(i - 16);
  }

 private:
  static constexpr uint16_t whole(int value) {
    int exponent = 127 + 7;
    if (value == 0) return 0;
    for (; value < 0x80; value *= 2) --exponent;
    return static_cast<uint16_t>(exponent << 7 | (value & 0x7F));
  }
  /// A number of `mantissa` bits below an exponent with this bias.
  static constexpr uint16_t small_float(int bits, int mantissa, int bias) {
    const int exponent = bits >> mantissa;
    const int fraction = bits & ((1 << mantissa) - 1);
    const int value = exponent == 0 ? fraction : fraction | 1 << mantissa;
    if (value == 0) return 0;
    const int shift = (exponent == 0 ? 1 : exponent) - bias - mantissa;  // value * 2^shift
    return static_cast<uint16_t>(whole(value) + shift * 128);
  }
};
alignas(64) constexpr CodeTables kCodeTables;

/// 0 1 2 3 ... with bytes 1 and 2 of each word exchanged.
struct ExchangedBytes {
  uint8_t order[64];
  constexpr ExchangedBytes() : order{} {
    for (int i = 0; i < 64; ++i) {
      constexpr int kOrder[] = {0, 2, 1, 3};
      order[i] = static_cast<uint8_t>(i % 16 / 4 * 4 + kOrder[i % 4]);
    }
  }
};
alignas(64) constexpr ExchangedBytes kExchangedBytes;

struct Avx512 : Lanes512 {
  static constexpr const uint16_t* kInterleave = kInterleaveLanes.lane;

  using Bf16Op = vec::PairDot<Avx512>;
  using Bf16Kv = vec::PairKv<Avx512>;
  template <class Bytes>
  using Kv8 = vec::PairKv8<Avx512, Bytes>;
  using Bf16Product = vec::PairProduct<Avx512>;
  using Int4Product = vec::ByteProduct<Avx512>;
  static constexpr int kByteRows = 12;
  static constexpr int kKeptByteRows = 7;
  static constexpr int kFewByteRows = 6;
  static constexpr int kMultiplyAddFlops = 64;

  // bf16
  static void store_bf16(uint16_t* p, F v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(v)); }
  static void store_bf16_n(uint16_t* p, F v, int64_t n) { _mm256_mask_storeu_epi16(p, mask(n), (__m256i)_mm512_cvtneps_pbh(v)); }
  /// 32 values of each of two rows as 32 words (a[i], b[i]).
  static void interleave(I a, I b, I& low, I& high) {
    low = _mm512_permutex2var_epi16(a, _mm512_load_si512(kInterleave), b);
    high = _mm512_permutex2var_epi16(a, _mm512_load_si512(kInterleave + 32), b);
  }
  static I pack_pairs(F low, F high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }
  /// Lane i: the pair of a's and b's lane i.
  static I pair_lanes(F a, F b) { return _mm512_permutexvar_epi16(_mm512_load_si512(kPairLanes.lane), pack_pairs(a, b)); }
  static F dot(F sum, I a, I b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
  static F bf16_multiply_add(F sum, F a, F b) { return dot(sum, as_words(a), as_words(b)); }

  // codes as pairs of bf16
  static void e2m1_pairs(I word, I (&steps)[4]) {
    const I table = _mm512_load_si512(kCodeTables.e2m1);
    steps[0] = _mm512_permutexvar_epi16(word, table);
    steps[1] = _mm512_permutexvar_epi16(_mm512_srli_epi32(word, 4), table);
    steps[2] = _mm512_permutexvar_epi16(_mm512_srli_epi32(word, 8), table);
    steps[3] = _mm512_permutexvar_epi16(_mm512_srli_epi32(word, 12), table);
  }
  /// `zero`: 16 minus the zero, in each byte.
  static void int4_pairs(I word, I zero, I (&steps)[4]) {
    const I table = _mm512_load_si512(kCodeTables.level);
    const I low = _mm512_set1_epi8(15);
    const I ordered = _mm512_shuffle_epi8(word, _mm512_load_si512(kExchangedBytes.order));
    const I first = _mm512_add_epi8(_mm512_and_si512(ordered, low), zero);
    const I last = _mm512_add_epi8(_mm512_and_si512(_mm512_srli_epi32(ordered, 4), low), zero);
    steps[0] = _mm512_permutexvar_epi16(first, table);
    steps[1] = _mm512_permutexvar_epi16(_mm512_srli_epi32(first, 8), table);
    steps[2] = _mm512_permutexvar_epi16(last, table);
    steps[3] = _mm512_permutexvar_epi16(_mm512_srli_epi32(last, 8), table);
  }
  /// Entry of the lowest 7 bits of each half word in a table of 128.
  static I look_up_128(const uint16_t* t, I v) {
    const I small = _mm512_permutex2var_epi16(_mm512_load_si512(t), v, _mm512_load_si512(t + 32));
    const I large = _mm512_permutex2var_epi16(_mm512_load_si512(t + 64), v, _mm512_load_si512(t + 96));
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(v, _mm512_set1_epi16(0x40)), small, large);
  }
  static void e4m3_pairs(I word, I (&steps)[2]) {
    const I sign = _mm512_set1_epi16(-32768);
    constexpr int kAOrBAndC = 0xF8;
    steps[0] = _mm512_ternarylogic_epi32(look_up_128(kCodeTables.e4m3, word), _mm512_slli_epi16(word, 8), sign, kAOrBAndC);
    steps[1] = _mm512_ternarylogic_epi32(look_up_128(kCodeTables.e4m3, _mm512_srli_epi16(word, 8)), word, sign, kAOrBAndC);
  }

  // n <= 32 numbers of 8 bits as bf16, zeros beyond
  static __m256i load_32_bytes(const uint8_t* p, int64_t n) {
    return n == 32 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi8(mask32(n), p);
  }
  static I float8_as_bf16(const uint16_t* sizes, const uint8_t* p, int64_t n) {
    const I v = _mm512_cvtepu8_epi16(load_32_bytes(p, n));
    constexpr int kAOrBAndC = 0xF8;
    return _mm512_ternarylogic_epi32(look_up_128(sizes, v), _mm512_slli_epi16(v, 8), _mm512_set1_epi16(-32768), kAOrBAndC);
  }
  static I e4m3_as_bf16(const uint8_t* p, int64_t n) { return float8_as_bf16(kCodeTables.e4m3, p, n); }
  static I e5m2_as_bf16(const uint8_t* p, int64_t n) { return float8_as_bf16(kCodeTables.e5m2, p, n); }
  static I int8_as_bf16(const uint8_t* p, int64_t n, float scale) {
    const __m256i v = load_32_bytes(p, n);
    const F low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(v)));
    const F high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(v, 1)));
    return pack_pairs(mul(low, set1(scale)), mul(high, set1(scale)));
  }

  // words of four bytes: inputs unsigned, weights signed
  static constexpr bool kBiasedBytes = true;
  using ByteInput = I;
  using ByteWeight = I;
  static I byte_input(const uint8_t* p) {
    int word;
    __builtin_memcpy(&word, p, sizeof(word));
    return _mm512_set1_epi32(word);
  }
  static I byte_weight(I word) { return word; }
  static I bytes_of_128() { return _mm512_set1_epi8(-128); }
  /// Of gcc 12's intrinsic a tile would copy every sum, and store it, at every step.
  static I dot_bytes(I sum, I x, I w) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
};

}  // namespace
}  // namespace lamina::kernels
