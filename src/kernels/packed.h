#pragma once
// The one weight layout. A matrix W [n, k] (HF order: out, in) is cut into panels of 32 rows; within a panel k runs slowest, so that
// one row and 512 rows read it in the same order. 16-bit types interleave pairs of k: [n/32][k/2][32][2]; f32: [n/32][k][32].
// Rows beyond n and an odd last k are zeros.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace lamina::kernels {

inline constexpr int64_t kPanelRows = 32;

struct PackedMatrix {
  DType storage = DType::kBF16;  // kBF16, kF16 or kF32
  DType compute = DType::kBF16;  // kBF16: x is bf16 too, products by the dot-product unit; kF32: weights expanded in registers
  int64_t n = 0;                 // rows (out features of this rank)
  int64_t k = 0;                 // columns (in features of this rank)
  void* data = nullptr;

  int64_t panels() const { return (n + kPanelRows - 1) / kPanelRows; }
  int64_t padded_k() const { return storage == DType::kF32 ? k : (k + 1) / 2 * 2; }
  size_t panel_bytes() const { return static_cast<size_t>(padded_k() * kPanelRows * dtype_bytes(storage)); }
  size_t bytes() const { return static_cast<size_t>(panels()) * panel_bytes(); }
};

}  // namespace lamina::kernels
