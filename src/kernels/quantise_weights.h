#pragma once
// Weights to codes: what quantising while loading and `lamina quantize` have in common.

#include <cstdint>

#include "kernels/quantised.h"

namespace lamina::kernels {

/// How the rows of a matrix become codes: symmetric, one scale for `group` neighbouring inputs (counted from input 0, the last group may be
/// short) or, with 0, for the whole row.
///   kInt8     scale = largest |w| / 127; kFp8E4m3: / 448; codes are the nearest, ties to even
///   kInt4     codes 0..15 around the zero point 8. The sign of the scale puts the value of largest |w| on the longer side. Of kInt4Steps
///             times largest |w| / 7 the size with the least sum of squared differences, then twice the scale that fits the codes best
///             (sum of w * code / sum of code^2, the least-squares step), where that lowers the sum
/// A scale is rounded to scale_dtype before the codes are chosen. A group of zeros has scale 1 and codes of zero, and so has one whose
/// largest |w| is below kLeastWeight.
struct WeightQuant {
  Code code = Code::kInt8;          // kInt8, kInt4 or kFp8E4m3
  int64_t group = 0;                // kInt4: 1 to kMostInt4Group
  DType scale_dtype = DType::kF32;  // kF32 or kBF16

  int64_t groups(int64_t cols) const { return group == 0 ? 1 : (cols + group - 1) / group; }
};

inline constexpr float kLeastWeight = 0x1p-100F;  // so that neither scales nor their inverses are subnormal or infinite
inline constexpr int64_t kMostInt4Group = 256;
/// The first is plain rounding, which the others must beat.
inline constexpr float kInt4Steps[] = {1.0F,  1.05F, 0.975F, 0.95F,  0.925F, 0.9F,  0.88F, 0.86F,
                                       0.84F, 0.82F, 0.8F,   0.775F, 0.75F,  0.72F, 0.68F, 0.62F};
inline constexpr int kInt4Refinements = 2;

/// Of rows [0, rows.rows): codes [rows, cols], one a byte, as pack_codes takes them (kInt4: zero point 8), and scales [rows, groups].
/// The same bits on every ISA path and whatever the number of rows. A group that holds NaN or an infinity has a scale that is not finite
/// and any codes.
void quantise_weights(const Kernels& kernels, const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales);

}  // namespace lamina::kernels
