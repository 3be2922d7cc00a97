// compressed-tensors pack-quantized: codes of 4 or 8 bits along the inputs, zero points along the outputs, both stored plus half the range.

#include "weights/format/coded.h"

namespace lamina {

namespace {

void unpack(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  const uint32_t flip = scheme.bits == 8 && scheme.symmetric ? 0x80 : 0;  // to a signed byte
  for (int64_t r = 0; r < count; ++r) {
    unpack_stream(scheme.bits, source.first_col, cols, flip, out + r * cols, [&](int64_t i) { return word_at(source, row + r, i); });
  }
}

int unpack_zero(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t unit) {
  const auto word = [&](int64_t i) { return word_at(source, i, unit); };
  return static_cast<int>(bits_at(scheme.bits, bit_of(scheme.bits, 32, source.first_row, row), word));
}

}  // namespace

PublishedLayout packed_layout(const LinearShape& shape, const QuantScheme& scheme) {
  using Axis = DiskDim::Axis;
  PublishedLayout out;
  const bool signed_bytes = scheme.bits == 8 && scheme.symmetric;
  out.code = scheme.bits == 4 ? kernels::Code::kInt4 : signed_bytes ? kernels::Code::kInt8 : kernels::Code::kUInt8;
  out.zero = signed_bytes ? 0 : 1 << (scheme.bits - 1);
  out.unpack = unpack;
  out.unpack_zero = unpack_zero;
  out.codes = {.leaf = "weight_packed",
               .disk = {DiskDim::rows(), DiskDim::packed(Axis::kCols, scheme.bits, 32)},
               .dtypes = {DType::kI32},
               .dummy = kDummyWords};
  out.scales = scales_tensor(scheme, "weight_scale");
  if (out.scales.disk.size() == 2) out.scales.disk[1] = group_dim(shape, scheme);
  if (!scheme.symmetric) {
    out.zeros = PublishedTensor{.leaf = "weight_zero_point",
                                .disk = {DiskDim::packed(Axis::kRows, scheme.bits, 32), group_dim(shape, scheme)},
                                .dtypes = {DType::kI32},
                                .dummy = {.dtype = DType::kI32, .set = scheme.bits == 4 ? 0x88888888U : 0x80808080U}};
  }
  if (scheme.act_order) {
    out.index = PublishedTensor{.leaf = "weight_g_idx", .disk = {DiskDim::fixed(shape.cols.on_disk().value)}, .dtypes = {DType::kI32}};
  }
  out.shape = PublishedTensor{.leaf = "weight_shape", .disk = {DiskDim::fixed(2)}, .dtypes = {DType::kI64, DType::kI32}, .optional = true};
  return out;
}

}  // namespace lamina
