// GPTQ: codes of 2, 3, 4 or 8 bits in one stream of bits along the inputs, zero points along the outputs. Version 1 of the format stores
// zero points less one.

#include "weights/format/coded.h"

namespace lamina {

namespace {

void unpack(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  const uint32_t flip = scheme.bits == 8 && scheme.symmetric ? 0x80 : 0;  // to a signed byte
  for (int64_t r = 0; r < count; ++r) {
    unpack_stream(scheme.bits, source.first_col, cols, flip, out + r * cols, [&](int64_t i) { return word_at(source, i, row + r); });
  }
}

int unpack_zero(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t unit) {
  const auto word = [&](int64_t i) { return word_at(source, unit, i); };
  const uint32_t stored = bits_at(scheme.bits, bit_of(scheme.bits, 32, source.first_row, row), word);
  return static_cast<int>(stored) + (scheme.zero_is_less_one ? 1 : 0);
}

}  // namespace

PublishedLayout gptq_layout(const LinearShape& shape, const QuantScheme& scheme) {
  using Axis = DiskDim::Axis;
  PublishedLayout out;
  const bool signed_bytes = scheme.bits == 8 && scheme.symmetric;
  out.code = scheme.bits < 8 ? kernels::Code::kInt4 : signed_bytes ? kernels::Code::kInt8 : kernels::Code::kUInt8;
  out.zero = signed_bytes ? 0 : 1 << (scheme.bits - 1);
  out.unpack = unpack;
  out.unpack_zero = unpack_zero;
  out.codes = {.leaf = "qweight",
               .disk = {DiskDim::packed(Axis::kCols, scheme.bits, 32), DiskDim::rows()},
               .dtypes = {DType::kI32},
               .dummy = kDummyWords};
  const DiskDim groups = group_dim(shape, scheme);
  out.scales = scales_tensor(scheme, "scales");
  out.scales.disk = {groups, DiskDim::rows()};
  const auto stored_middle = static_cast<uint32_t>((1 << (scheme.bits - 1)) - (scheme.zero_is_less_one ? 1 : 0));
  out.zeros = PublishedTensor{.leaf = "qzeros",
                              .disk = {groups, DiskDim::packed(Axis::kRows, scheme.bits, 32)},
                              .dtypes = {DType::kI32},
                              .dummy = {.dtype = DType::kI32, .keep = 0, .set = stored_middle, .period = scheme.bits}};
  out.index = PublishedTensor{
      .leaf = "g_idx", .disk = {DiskDim::fixed(shape.cols.on_disk().value)}, .dtypes = {DType::kI32}, .optional = !scheme.act_order};
  return out;
}

}  // namespace lamina
