// FP8 (e4m3): one scale a tensor or a part of a fused one, one a row, blocks, MXFP8. weight_scale_inv multiplies, despite its name.

#include <cstring>

#include "weights/format/coded.h"

namespace lamina {

namespace {

void unpack(const QuantScheme&, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  const auto* from = static_cast<const uint8_t*>(source.data) + row * source.stride;
  for (int64_t r = 0; r < count; ++r) std::memcpy(out + r * cols, from + r * source.stride, static_cast<size_t>(cols));
}

}  // namespace

PublishedLayout fp8_layout(const LinearShape&, const QuantScheme& scheme) {
  PublishedLayout out;
  out.code = kernels::Code::kFp8E4m3;
  out.unpack = unpack;
  out.codes = {.leaf = "weight",
               .disk = {DiskDim::rows(), DiskDim::cols()},
               .dtypes = {DType::kF8E4M3},
               .dummy = {.dtype = DType::kF8E4M3, .keep = 0xBFBFBFBF}};  // below 2 in size, no NaN
  const bool blocks = scheme.scale_rows > 1 || scheme.scale == QuantScheme::Scale::kE8m0;
  out.scales = scales_tensor(scheme, blocks ? "weight_scale_inv" : "weight_scale");
  out.scales.aliases = {blocks ? "weight_scale" : "weight_scale_inv"};
  if (scheme.input.from_checkpoint) {
    out.input_scale = PublishedTensor{.leaf = "input_scale",
                                      .aliases = {"activation_scale"},
                                      .disk = {DiskDim::fixed(1)},
                                      .dtypes = {DType::kF32, DType::kBF16, DType::kF16},
                                      .dummy = {.dtype = DType::kF32, .keep = 0, .set = 0x3C800000}};  // 2^-6
  }
  return out;
}

}  // namespace lamina
