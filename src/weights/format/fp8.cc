// FP8 (e4m3): one scale a tensor or a part of a fused one, one a row, blocks, MXFP8. weight_scale_inv multiplies, despite its name.

#include "weights/format/coded.h"

namespace lamina {

PublishedLayout fp8_layout(const LinearShape&, const QuantScheme& scheme) {
  PublishedLayout out;
  out.code = kernels::Code::kFp8E4m3;
  out.unpack = unpack_bytes;
  out.codes = {.leaf = "weight",
               .disk = {DiskDim::rows(), DiskDim::cols()},
               .dtypes = {DType::kF8E4M3},
               .dummy = {.dtype = DType::kF8E4M3, .keep = 0xBFBFBFBF}};  // below 2 in size, no NaN
  const bool blocks = scheme.scale_rows > 1 || scheme.scale == QuantScheme::Scale::kE8m0;
  out.scales = scales_tensor(scheme, blocks ? "weight_scale_inv" : "weight_scale");
  out.scales.aliases = {blocks ? "weight_scale" : "weight_scale_inv"};
  if (scheme.input.from_checkpoint) {
    out.input_scale = input_scale_tensor();
    out.input_scale->aliases = {"activation_scale"};
  }
  return out;
}

}  // namespace lamina
