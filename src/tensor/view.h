#pragma once
// Two-dimensional views: rows of `cols` elements, `stride` elements from row to row. Views never own and never outlive the call.

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "tensor/dtype.h"

namespace lamina {

/// A typed matrix view [rows, cols], row-major with a row stride (in elements).
template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* d, int64_t r, int64_t c) : data(d), rows(r), cols(c), stride(c) {}
  MatrixView(T* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  template <class U>
    requires std::is_same_v<T, const U>
  MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : data(other.data), rows(other.rows), cols(other.cols), stride(other.stride) {}

  T* row(int64_t r) const { return data + r * stride; }
  T& at(int64_t r, int64_t c) const { return data[r * stride + c]; }
  /// Columns [begin, begin + count) of every row.
  MatrixView columns(int64_t begin, int64_t count) const {
    LAMINA_CHECK(begin >= 0 && begin + count <= cols, "columns outside the view");
    return {data + begin, rows, count, stride};
  }
  /// Rows [begin, begin + count).
  MatrixView slice(int64_t begin, int64_t count) const {
    LAMINA_CHECK(begin >= 0 && begin + count <= rows, "rows outside the view");
    return {data + begin * stride, count, cols, stride};
  }
};

using F32View = MatrixView<float>;
using ConstF32View = MatrixView<const float>;

/// A matmul input [rows, cols]: f32, already rounded to bf16 when the consumer's format multiplies bf16, or codes of a quantised input.
struct Activation {
  DType dtype = DType::kF32;  // kF32, kBF16 (values or E4M3 codes as values) or kU8 (int8 codes plus 128)
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;   // elements
  ConstF32View scales;  // of codes: element = code * scale. [rows, 1], stride 0: one for all rows; no data: plain. Of codes for one matrix
                        // also [rows, runs of the matrix]

  Activation() = default;
  Activation(ConstF32View v)
      : dtype(DType::kF32), data(v.data), rows(v.rows), cols(v.cols), stride(v.stride) {}  // NOLINT(google-explicit-constructor)
  Activation(MatrixView<const uint16_t> v)
      : dtype(DType::kBF16), data(v.data), rows(v.rows), cols(v.cols), stride(v.stride) {}  // NOLINT(google-explicit-constructor)
  ConstF32View f32() const {
    LAMINA_CHECK(dtype == DType::kF32, "activation is not f32");
    return {static_cast<const float*>(data), rows, cols, stride};
  }
  MatrixView<const uint16_t> bf16() const {
    LAMINA_CHECK(dtype == DType::kBF16, "activation is not bf16");
    return {static_cast<const uint16_t*>(data), rows, cols, stride};
  }
  Activation slice(int64_t begin, int64_t count) const {
    Activation out = *this;
    out.data = static_cast<const char*>(data) + begin * stride * dtype_bytes(dtype);
    out.rows = count;
    if (is_coded()) out.scales = scales.slice(begin, count);
    return out;
  }
  bool is_coded() const { return scales.data != nullptr; }
  /// Columns [begin, begin + count) of every row; of codes, with the scales of whole rows.
  Activation columns(int64_t begin, int64_t count) const {
    LAMINA_CHECK(scales.cols <= 1, "columns of codes that have a scale a run");
    Activation out = *this;
    out.data = static_cast<const char*>(data) + begin * dtype_bytes(dtype);
    out.cols = count;
    return out;
  }
};

/// A writable Activation: where a norm or an activation function leaves the next matmul's input.
struct MutableActivation {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  F32View scales = {};  // as Activation's; who writes rows with a scale each fills them too

  bool is_coded() const { return scales.data != nullptr; }
  Activation view() const {
    Activation a;
    a.dtype = dtype, a.data = data, a.rows = rows, a.cols = cols, a.stride = stride, a.scales = scales;
    return a;
  }
  MutableActivation slice(int64_t begin, int64_t count) const {
    MutableActivation out = *this;
    out.data = static_cast<char*>(data) + begin * stride * dtype_bytes(dtype);
    out.rows = count;
    if (is_coded()) out.scales = scales.slice(begin, count);
    return out;
  }
  /// Columns [begin, begin + count) of every row, not of codes.
  MutableActivation columns(int64_t begin, int64_t count) const {
    LAMINA_CHECK(!is_coded() && begin >= 0 && begin + count <= cols, "columns outside the activation");
    MutableActivation out = *this;
    out.data = static_cast<char*>(data) + begin * dtype_bytes(dtype);
    out.cols = count;
    return out;
  }
  /// Rounds to bf16 when that is the dtype.
  void store(int64_t r, int64_t c, float value) const {
    if (dtype == DType::kF32)
      static_cast<float*>(data)[r * stride + c] = value;
    else
      static_cast<uint16_t*>(data)[r * stride + c] = f32_to_bf16(value);
  }
};

}  // namespace lamina
