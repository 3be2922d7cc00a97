#pragma once
// The table of an ISA path out of its vector operations.

#include "kernels/kernels.h"
#include "kernels/vector/kv8.h"
#include "kernels/vector/matmul.h"
#include "kernels/vector/pack.h"
#include "kernels/vector/quantise_weights.h"
#include "kernels/vector/rows.h"

namespace lamina::kernels::vec {

template <class V>
uint64_t read_lines(const void* data, int64_t count) {
  const auto* p = static_cast<const char*>(data);
  typename V::I seen = V::zero_words();
  for (const char* end = p + count * 64; p != end; p += 64) {
    V::prefetch(p + 8192);
    for (int64_t i = 0; i < 64; i += V::kWidth * 4) seen = V::either(seen, V::load_words(p + i));
  }
  uint32_t words[V::kWidth];
  V::store_words(words, seen, V::kWidth);
  uint64_t all = 0;
  for (const uint32_t word : words) all ^= word;
  return all;
}

template <class V>
double dot_burst(int64_t rounds) {
  constexpr int kChains = V::kTileRows * V::kTileVectors;
  typename V::F sum[kChains];
#pragma GCC unroll 32
  for (int i = 0; i < kChains; ++i) {
    sum[i] = V::zero();
    V::forget(sum[i]);  // else the compiler sees that all chains are equal
  }
  typename V::F a = V::zero();
  typename V::F b = V::zero();
  for (int64_t round = 0; round < rounds; ++round) {
    V::forget(a);
    V::forget(b);
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) sum[i] = V::bf16_multiply_add(sum[i], a, b);
  }
#pragma GCC unroll 32
  for (int i = 0; i < kChains; ++i) V::forget(sum[i]);
  return static_cast<double>(rounds) * kChains * V::kMultiplyAddFlops;
}

/// `attend`: attention, which has a translation unit of its own.
template <class V>
constexpr Kernels make_table(Isa isa, const QuantisedKernels* quantised, decltype(Kernels::attention_item) attend) {
  return {
      .isa = isa,
      .quantised = quantised,
      .pack_rows = pack_rows<V>,
      .unpack_row = unpack_row<V>,
      .matmul_panels = matmul_panels<V>,
      .rms_norm = rms_norm<V>,
      .add_rms_norm = add_rms_norm<V>,
      .add_rows = add_rows<V>,
      .head_rms_norm = head_rms_norm<V>,
      .rope = rope<V>,
      .silu_and_mul = silu_and_mul<V>,
      .round_to_bf16 = round_to_bf16<V>,
      .store_kv = store_kv<V>,
      .attention_item = attend,
      .argmax = argmax<V>,
      .log_sum_exp = log_sum_exp<V>,
      .quantise_weights = quantise_weights<V>,
      .dot_burst = dot_burst<V>,
      .read_lines = read_lines<V>,
  };
}

}  // namespace lamina::kernels::vec
