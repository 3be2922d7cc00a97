// 4-bit floats (e2m1), two a byte, low half first: MXFP4 (a power of two for 32 inputs) and NVFP4 (e4m3 for 16 inputs times one f32).
// Inputs stay plain; scales for them are read and checked.

#include "weights/format/coded.h"

namespace lamina {

namespace {

void unpack(const QuantScheme&, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  for (int64_t r = 0; r < count; ++r) {
    const auto* bytes = static_cast<const uint8_t*>(source.data) + (row + r) * source.stride;
    for (int64_t k = 0; k < cols; ++k) {
      const int64_t bit = bit_of(4, 8, source.first_col, k);
      *out++ = static_cast<uint8_t>(bytes[bit / 8] >> bit % 8 & 15);
    }
  }
}

}  // namespace

PublishedLayout fp4_layout(const LinearShape&, const QuantScheme& scheme) {
  PublishedLayout out;
  out.code = kernels::Code::kFp4E2m1;
  out.unpack = unpack;
  out.codes = {.leaf = scheme.modelopt ? "weight" : "weight_packed",
               .disk = {DiskDim::rows(), DiskDim::packed(DiskDim::Axis::kCols, 4, 8)},
               .dtypes = {DType::kU8},
               .dummy = {.dtype = DType::kU8, .keep = 0xFFFFFFFFU}};
  out.scales = scales_tensor(scheme, "weight_scale");
  if (scheme.scale != QuantScheme::Scale::kE4m3) return out;
  const PublishedTensor one{.leaf = scheme.modelopt ? "weight_scale_2" : "weight_global_scale",
                            .disk = {DiskDim::fixed(1)},
                            .dtypes = {DType::kF32},
                            .dummy = {.dtype = DType::kF32, .keep = 0, .set = scheme.modelopt ? 0x3C000000U : 0x43000000U}};  // 2^-7, 2^7
  out.global_scale = one;
  out.global_scale_divides = !scheme.modelopt;
  out.input_scale = one;
  out.input_scale->leaf = scheme.modelopt ? "input_scale" : "input_global_scale";
  out.input_scale->optional = true;
  return out;
}

}  // namespace lamina
