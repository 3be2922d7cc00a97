#pragma once
// The vector operations of AVX-512 without its dot products of bf16 and of bytes: F, BW, DQ and VL. Each file of this folder has its own
// copy, in an unnamed namespace (see vector/lanes.h).

#include "kernels/avx512f/lanes512.h"
#include "kernels/vector/coded_tile.h"
#include "kernels/vector/kv8.h"

namespace lamina::kernels {
namespace {

struct Avx512F : Lanes512 {
  using Bf16Op = vec::PairExpand<Avx512F, uint16_t>;
  using Bf16Kv = vec::FloatKv<Avx512F, uint16_t>;
  template <class Bytes>
  using Kv8 = vec::FloatKv8<Avx512F, Bytes>;
  using Bf16Product = vec::FloatProduct<Avx512F, uint16_t>;
  using Int4Product = vec::NibbleProduct<Avx512F>;
  static constexpr int kByteRows = 12;     // 24 accumulators, 4 vectors of weights, 2 of inputs and a mask of 32 registers
  static constexpr int kKeptByteRows = 6;  // beside 12 totals
  static constexpr int kKeptNibbleRows = 6;
  static constexpr int kFewByteRows = 4;  // 8 sums and 8 totals beside pairs of vectors
  static constexpr int kMultiplyAddFlops = 32;

  // bf16
  /// Rounded to nearest even; NaN stays NaN.
  static __m256i to_bf16(F v) {
    const I bits = as_words(v);
    const I odd = both(_mm512_srli_epi32(bits, 16), set1_word(1));
    const I rounded = add_words(bits, add_words(odd, set1_word(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_or_epi32(rounded, nan, bits, set1_word(0x400000)), 16));
  }
  static void store_bf16(uint16_t* p, F v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(v)); }
  static void store_bf16_n(uint16_t* p, F v, int64_t n) { _mm256_mask_storeu_epi16(p, mask(n), to_bf16(v)); }
  static I pack_pairs(F low, F high) { return _mm512_inserti64x4(_mm512_castsi256_si512(to_bf16(low)), to_bf16(high), 1); }
  static F broadcast_bf16(const uint16_t* p) { return as_floats(_mm512_maskz_set1_epi16(0xAAAAAAAA, static_cast<int16_t>(*p))); }
  static F bf16_multiply_add(F sum, F a, F b) { return fma(a, b, sum); }

  // words of four bytes as two vectors of 16-bit numbers, bytes 0 and 2 and bytes 1 and 3: sums of bytes times bytes would saturate
  static constexpr bool kBiasedBytes = true;
  struct ByteInput {
    I even, odd;
  };
  using ByteWeight = ByteInput;
  static ByteInput unsigned_bytes(I word) { return {both(word, _mm512_set1_epi16(0xFF)), _mm512_srli_epi16(word, 8)}; }
  static I broadcast_bytes(const uint8_t* p) {
    int word;
    __builtin_memcpy(&word, p, sizeof(word));
    return _mm512_set1_epi32(word);
  }
  static ByteInput byte_input(const uint8_t* p) { return unsigned_bytes(broadcast_bytes(p)); }
  static ByteWeight byte_weight(I word) { return {_mm512_srai_epi16(_mm512_slli_epi16(word, 8), 8), _mm512_srai_epi16(word, 8)}; }
  static ByteInput bytes_of_128() { return {_mm512_set1_epi16(128), _mm512_set1_epi16(128)}; }
  static I dot_bytes(I sum, ByteInput x, ByteWeight w) {
    return add_words(sum, add_words(_mm512_madd_epi16(x.even, w.even), _mm512_madd_epi16(x.odd, w.odd)));
  }
  static I dot_nibbles(I sum, I x, I w) { return add_words(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(x, w), _mm512_set1_epi16(1))); }
};

}  // namespace
}  // namespace lamina::kernels
