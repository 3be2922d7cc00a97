#pragma once
// Weights to codes: what quantising while loading and `lamina quantize` have in common.

#include <cstdint>

#include "kernels/quantised.h"

namespace lamina::kernels {

/// How the rows of a matrix become codes: symmetric, one scale for `group` neighbouring inputs (counted from input 0, the last group may be
/// short) or, with 0, for the whole row.
///   kInt8     scale = largest |w| / 127; kFp8E4m3: / 448; codes are the nearest, ties to even
///   kInt4     codes 1..15 around the zero point 8 or 0..15 where that fits better; of a fixed list of scales around largest |w| / 7 (both
///             signs) the one with the least sum of squared differences, after the least-squares step that fits the scale to the codes
/// A scale is rounded to scale_dtype before the codes are chosen. A group of zeros has scale 1 and codes of zero.
struct WeightQuant {
  Code code = Code::kInt8;  // kInt8, kInt4 or kFp8E4m3
  int64_t group = 0;
  DType scale_dtype = DType::kF32;  // kF32 or kBF16

  int64_t groups(int64_t cols) const { return group == 0 ? 1 : (cols + group - 1) / group; }
};

/// Of rows [0, rows.rows): codes [rows, cols], one a byte, as pack_codes takes them (kInt4: zero point 8), and scales [rows, groups].
/// The same bits on every ISA path and whatever the number of rows. A row that holds NaN or an infinity has a scale that is not finite.
void quantise_weights(const Kernels& kernels, const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales);

}  // namespace lamina::kernels
