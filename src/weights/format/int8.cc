// INT8 weights with a scale a row, group or tensor; inputs usually int8 by row (w8a8).

#include "weights/format/coded.h"

namespace lamina {

PublishedLayout int8_layout(const LinearShape&, const QuantScheme& scheme) {
  PublishedLayout out;
  out.code = kernels::Code::kInt8;
  out.unpack = unpack_bytes;
  out.codes = {.leaf = "weight",
               .disk = {DiskDim::rows(), DiskDim::cols()},
               .dtypes = {DType::kI8},
               .dummy = {.dtype = DType::kI8, .keep = 0xFFFFFFFFU}};
  out.scales = scales_tensor(scheme, "weight_scale");
  if (scheme.scale == QuantScheme::Scale::kFloat) out.scales.dummy = {.dtype = DType::kBF16, .keep = 0x007F007F, .set = 0x39003900};
  if (scheme.input.from_checkpoint) out.input_scale = input_scale_tensor();
  return out;
}

}  // namespace lamina
