#pragma once
// The one weight layout. A matrix W [n, k] (HF order: out, in) is cut into panels of 32 rows; within a panel k runs slowest, so that
// one row and 512 rows read it in the same order. bf16 interleaves pairs of k, as the dot-product unit wants: [n/32][k/2][32][2];
// f16 and f32, which are only ever expanded, do not: [n/32][k][32]. Rows beyond n and an odd last k are zeros.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace lamina::kernels {

inline constexpr int64_t kPanelRows = 32;

struct PackedMatrix {
  DType storage = DType::kBF16;  // kBF16, kF16 or kF32
  DType compute = DType::kBF16;  // kBF16 (storage must be kBF16): x is bf16 too; kF32: x is f32, weights are expanded in registers
  int64_t n = 0;                 // rows (out features of this rank)
  int64_t k = 0;                 // columns (in features of this rank)
  void* data = nullptr;          // 64-byte aligned

  int64_t panels() const { return (n + kPanelRows - 1) / kPanelRows; }
  int64_t padded_k() const { return storage == DType::kBF16 ? (k + 1) / 2 * 2 : k; }
  size_t panel_bytes() const { return static_cast<size_t>(padded_k() * kPanelRows * dtype_bytes(storage)); }
  size_t bytes() const { return static_cast<size_t>(panels()) * panel_bytes(); }
  /// The rows of `count` panels from `panel` on, all of which must be full.
  PackedMatrix part(int64_t panel, int64_t count) const {
    PackedMatrix out = *this;
    out.n = count * kPanelRows;
    out.data = static_cast<char*>(data) + static_cast<size_t>(panel) * panel_bytes();
    return out;
  }
};

}  // namespace lamina::kernels
