// INT8 weights with a scale a row, group or tensor; inputs usually int8 by row (w8a8).

#include <cstring>

#include "weights/format/coded.h"

namespace lamina {

namespace {

void unpack(const QuantScheme&, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  const auto* from = static_cast<const uint8_t*>(source.data) + row * source.stride;
  for (int64_t r = 0; r < count; ++r) std::memcpy(out + r * cols, from + r * source.stride, static_cast<size_t>(cols));
}

}  // namespace

PublishedLayout int8_layout(const LinearShape&, const QuantScheme& scheme) {
  PublishedLayout out;
  out.code = kernels::Code::kInt8;
  out.unpack = unpack;
  out.codes = {.leaf = "weight",
               .disk = {DiskDim::rows(), DiskDim::cols()},
               .dtypes = {DType::kI8},
               .dummy = {.dtype = DType::kI8, .keep = 0xFFFFFFFFU}};
  out.scales = scales_tensor(scheme, "weight_scale");
  if (scheme.scale == QuantScheme::Scale::kFloat) out.scales.dummy = {.dtype = DType::kF32, .keep = 0x007FFFFF, .set = 0x39000000};
  if (scheme.input.from_checkpoint) {
    out.input_scale = PublishedTensor{.leaf = "input_scale",
                                      .disk = {DiskDim::fixed(1)},
                                      .dtypes = {DType::kF32, DType::kBF16, DType::kF16},
                                      .dummy = {.dtype = DType::kF32, .keep = 0, .set = 0x3C800000}};
  }
  return out;
}

}  // namespace lamina
