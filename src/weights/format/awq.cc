// AWQ in its gemm layout: eight outputs a word, in the order 0 2 4 6 1 3 5 7; zero points alike, as they are.

#include "weights/format/coded.h"

namespace lamina {

namespace {

/// The bits of output `n` of its word.
constexpr int kShift[8] = {0, 16, 4, 20, 8, 24, 12, 28};

uint32_t code(const SourceRows& source, int64_t line, int64_t row) {
  const int64_t n = source.first_row + row;
  return word_at(source, line, n / 8 - source.first_row / 8) >> kShift[n % 8] & 15;
}

void unpack(const QuantScheme&, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  for (int64_t k = 0; k < cols; ++k) {
    uint32_t word = 0;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t n = source.first_row + row + r;
      if (r == 0 || n % 8 == 0) word = word_at(source, k, n / 8 - source.first_row / 8);
      out[r * cols + k] = static_cast<uint8_t>(word >> kShift[n % 8] & 15);
    }
  }
}

int unpack_zero(const QuantScheme&, const SourceRows& source, int64_t row, int64_t unit) {
  return static_cast<int>(code(source, unit, row));
}

}  // namespace

PublishedLayout awq_layout(const LinearShape& shape, const QuantScheme& scheme) {
  using Axis = DiskDim::Axis;
  PublishedLayout out;
  out.code = kernels::Code::kInt4;
  out.unpack = unpack;
  out.unpack_zero = unpack_zero;
  out.codes = {
      .leaf = "qweight", .disk = {DiskDim::cols(), DiskDim::packed(Axis::kRows, 4, 32)}, .dtypes = {DType::kI32}, .dummy = kDummyWords};
  out.scales = scales_tensor(scheme, "scales");
  out.scales.disk = {group_dim(shape, scheme), DiskDim::rows()};
  out.zeros = PublishedTensor{.leaf = "qzeros",
                              .disk = {group_dim(shape, scheme), DiskDim::packed(Axis::kRows, 4, 32)},
                              .dtypes = {DType::kI32},
                              .dummy = {.dtype = DType::kI32, .keep = 0, .set = 0x88888888U}};
  return out;
}

}  // namespace lamina
