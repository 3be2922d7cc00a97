#pragma once
// Packing of weights: transposing rows into panels. Also used for the keys and values of attention.

#include "base/check.h"
#include "kernels/packed.h"
#include "kernels/vector/lanes.h"

namespace lamina::kernels::vec {

/// Transposes `rows` <= kWidth rows of `steps` 32-bit words: load_words(row, step, n) gives n <= kWidth words of a row from `step` on,
/// store_step(step, v) takes that step of all rows, zeros beyond `rows`.
template <class V, class Load, class Store>
void transpose_rows(int64_t rows, int64_t steps, Load&& load_words, Store&& store_step) {
  constexpr int64_t kWidth = V::kWidth;
  typename V::I block[kWidth];
  for (int64_t step = 0; step < steps; step += kWidth) {
    const int64_t n = least<V>(kWidth, steps - step);
    if (rows == kWidth) {
#pragma GCC unroll 16
      for (int64_t r = 0; r < kWidth; ++r) block[r] = load_words(r, step, n);
    } else {
      for (int64_t r = 0; r < kWidth; ++r) block[r] = r < rows ? load_words(r, step, n) : V::zero_words();
    }
    V::transpose(block);
    if (n == kWidth) {
#pragma GCC unroll 16
      for (int64_t j = 0; j < kWidth; ++j) store_step(step + j, block[j]);
    } else {
      for (int64_t j = 0; j < n; ++j) store_step(step + j, block[j]);
    }
  }
}

// --- sources: n <= kWidth floats at index i ------------------------------------------------------------------------------------------

template <class V>
struct F32Source {
  static constexpr bool kRaw = false;
  using T = float;
  static typename V::F load(const T* p, int64_t n) { return n == V::kWidth ? V::load(p) : V::load_n(p, n); }
};
template <class V>
struct F16Source {
  static constexpr bool kRaw = false;
  using T = uint16_t;
  static typename V::F load(const T* p, int64_t n) { return n == V::kWidth ? V::load_f16(p) : V::load_f16_n(p, n); }
};
template <class V>
struct Bf16Source {
  static constexpr bool kRaw = true;  // already the words of a bf16 panel
  using T = uint16_t;
  static typename V::F load(const T* p, int64_t n) { return n == V::kWidth ? V::load_bf16(p) : V::load_bf16_n(p, n); }
};

/// `values` <= 2 kWidth values as words of two bf16; bf16 sources are copied bit for bit.
template <class V, class Source>
typename V::I pair_words(const typename Source::T* p, int64_t values) {
  if constexpr (Source::kRaw) {
    return V::load_pairs(p, values);
  } else {
    const int64_t low = least<V, int64_t>(values, V::kWidth);
    const auto high = values > low ? Source::load(p + low, values - low) : V::zero();
    return V::pack_pairs(Source::load(p, low), high);
  }
}

template <class V, class Source>
class Packer {
 public:
  Packer(const PackedMatrix& packed, const typename Source::T* src, int64_t stride) : packed_(packed), src_(src), stride_(stride) {}

  /// Packs rows [row, row + count) of the matrix, all within one panel, from src rows `from` on; or clears them.
  void panel_rows(int64_t row, int64_t count, int64_t from, bool zeros) const {
    for (int64_t done = 0; done < count;) {
      const int64_t in_panel = (row + done) % kPanelRows;
      const int64_t rows = least<V>(count - done, V::kWidth - in_panel % V::kWidth);
      part(row + done, rows, from + done, zeros);
      done += rows;
    }
  }

 private:
  void part(int64_t row, int64_t rows, int64_t from, bool zeros) const {
    const int64_t source_rows = zeros ? 0 : rows;
    const typename Source::T* src = src_ + from * stride_;
    const int64_t k = packed_.k;
    const int64_t panel = row / kPanelRows;
    const int64_t in_panel = row % kPanelRows;
    if (packed_.storage == DType::kBF16) {
      const int64_t steps = (k + 1) / 2;
      uint16_t* out = static_cast<uint16_t*>(packed_.data) + (panel * steps * kPanelRows + in_panel) * 2;
      transpose_rows<V>(
          source_rows, steps,
          [&](int64_t r, int64_t step, int64_t n) {
            const int64_t values = least<V>(2 * n, k - 2 * step);
            return pair_words<V, Source>(src + r * stride_ + 2 * step, values);
          },
          [&](int64_t step, typename V::I v) { V::store_words(out + step * kPanelRows * 2, v, rows); });
      return;
    }
    const auto load_floats = [&](int64_t r, int64_t step, int64_t n) { return V::as_words(Source::load(src + r * stride_ + step, n)); };
    if (packed_.storage == DType::kF16) {
      uint16_t* out = static_cast<uint16_t*>(packed_.data) + panel * k * kPanelRows + in_panel;
      transpose_rows<V>(source_rows, k, load_floats,
                        [&](int64_t step, typename V::I v) { V::store_f16(out + step * kPanelRows, V::as_floats(v), rows); });
      return;
    }
    float* out = static_cast<float*>(packed_.data) + panel * k * kPanelRows + in_panel;
    transpose_rows<V>(source_rows, k, load_floats,
                      [&](int64_t step, typename V::I v) { V::store_words(out + step * kPanelRows, v, rows); });
  }

  const PackedMatrix& packed_;
  const typename Source::T* src_;
  int64_t stride_;
};

template <class V, class Source>
void pack_from(const PackedMatrix& packed, int64_t row, int64_t count, const void* src, int64_t stride) {
  const Packer<V, Source> packer(packed, static_cast<const typename Source::T*>(src), stride);
  for (int64_t done = 0; done < count;) {
    const int64_t rows = least<V>(count - done, kPanelRows - (row + done) % kPanelRows);
    packer.panel_rows(row + done, rows, done, false);
    done += rows;
  }
  if (row + count == packed.n) packer.panel_rows(packed.n, (kPanelRows - packed.n % kPanelRows) % kPanelRows, 0, true);
}

template <class V>
void pack_rows(const PackedMatrix& packed, int64_t row, int64_t count, const void* src, DType src_dtype, int64_t src_stride) {
  if (src_dtype == DType::kF32) return pack_from<V, F32Source<V>>(packed, row, count, src, src_stride);
  if (src_dtype == DType::kF16) return pack_from<V, F16Source<V>>(packed, row, count, src, src_stride);
  LAMINA_CHECK(src_dtype == DType::kBF16, "weights are f32, f16 or bf16");
  pack_from<V, Bf16Source<V>>(packed, row, count, src, src_stride);
}

template <class V>
void unpack_row(const PackedMatrix& packed, int64_t row, float* out) {
  const int64_t panel = row / kPanelRows;
  const int64_t r = row % kPanelRows;
  const int64_t k = packed.k;
  if (packed.storage == DType::kBF16) {
    const uint16_t* p = static_cast<const uint16_t*>(packed.data) + (panel * ((k + 1) / 2) * kPanelRows + r) * 2;
    for (int64_t i = 0; i < k; ++i) out[i] = __builtin_bit_cast(float, static_cast<uint32_t>(p[i / 2 * kPanelRows * 2 + i % 2]) << 16);
  } else if (packed.storage == DType::kF16) {
    const uint16_t* p = static_cast<const uint16_t*>(packed.data) + panel * k * kPanelRows + r;
    for (int64_t i = 0; i < k; ++i) out[i] = V::f16_to_float(p[i * kPanelRows]);
  } else {
    const float* p = static_cast<const float*>(packed.data) + panel * k * kPanelRows + r;
    for (int64_t i = 0; i < k; ++i) out[i] = p[i * kPanelRows];
  }
}

}  // namespace lamina::kernels::vec
