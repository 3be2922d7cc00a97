#include "kernels/quantise_weights.h"

#include "base/check.h"

namespace lamina::kernels {

void quantise_weights(const Kernels& kernels, const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales) {
  LAMINA_CHECK(rule.code == Code::kInt8 || rule.code == Code::kInt4 || rule.code == Code::kFp8E4m3, "weights become int8, int4 or e4m3");
  LAMINA_CHECK(rule.scale_dtype == DType::kF32 || rule.scale_dtype == DType::kBF16, "scales of quantised weights are f32 or bf16");
  LAMINA_CHECK(rule.code != Code::kInt4 || (rule.group >= 1 && rule.group <= kMostInt4Group), "a group of int4 weights");
  LAMINA_CHECK(scales.rows == rows.rows && scales.cols == rule.groups(rows.cols), "quantise_weights: shape of the scales");
  kernels.quantise_weights(rule, rows, codes, scales);
}

}  // namespace lamina::kernels
