#pragma once
// Matmul over a matrix of codes that are expanded in registers or in the first-level cache, never as a wide copy of the matrix; and the
// quantisation of activations.
//
//   w[n, k] = (decode(code[n, k]) - zero[n, r]) * scale[n, r] * row_scale[n]       r: the run of k
//
// Runs are consecutive k that share a scale: one for per-channel scales, ceil(k / 32) for MXFP4, those of the 128-blocks (counted from the
// global input index, so the first and last of a shard may be short) for block FP8, groups sorted by g_idx for activation order. An output
// is the sum over runs, in order, of scale * (sum over k of the run, in order, in f32 or exactly in i32), then times the scales of the
// activation's and of the matrix's row, plus the bias.

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace lamina::kernels {

enum class Code {
  kInt8,     // signed, no zeros
  kUInt8,    // 0..255
  kInt4,     // 0..15, two a byte; 2- and 3-bit codes are stored so too
  kFp8E4m3,  // OCP E4M3, no infinities, no zeros
  kFp4E2m1   // 0 .5 1 1.5 2 3 4 6 and their negatives (bit 3), two a byte, no zeros
};
inline int code_bits(Code code) { return code == Code::kInt4 || code == Code::kFp4E2m1 ? 4 : 8; }
/// What a code stands for, before zero and scale; NaN for the two NaN of E4M3. `code` is the byte that pack_codes takes.
float decode(Code code, uint8_t byte);

/// Panels of kPanelRows rows as PackedMatrix: within a panel k runs slowest. How codes of neighbouring k interleave is the kernels' own
/// affair. Every path reads the same bytes. The caller owns the memory that the pointers name.
struct CodedMatrix {
  Code code = Code::kInt8;
  int64_t n = 0;
  int64_t k = 0;
  int64_t runs = 1;
  const int32_t* run_end = nullptr;  // [runs], increasing, the last is k
  void* codes = nullptr;             // 64-byte aligned, code_bytes() bytes

  DType scale_dtype = DType::kF32;  // kF32, kF16, kBF16, kF8E4M3, or kU8: E8M0, 2^(s - 127) (255, its NaN, is not allowed)
  void* scales = nullptr;           // [panels][runs][kPanelRows], scale_bytes() bytes, 64-byte aligned
  uint8_t* zeros = nullptr;         // likewise in code units, zero_bytes() bytes; null: `zero` everywhere
  int zero = 0;                     // 0..255
  float* row_scales = nullptr;      // [panels * kPanelRows]; null: 1

  int64_t panels() const { return (n + kPanelRows - 1) / kPanelRows; }
  size_t code_bytes() const;  // a run is padded to whole words: 4 codes of 8 bits, 8 of 4
  size_t scale_bytes() const;
  size_t zero_bytes() const;
  /// The rows of `count` panels from `panel` on, all of which must be full.
  CodedMatrix part(int64_t panel, int64_t count) const;
};

// Filling a matrix. Rows [row, row + count); threads may fill different panels at once, never parts of one. The call that fills row n - 1
// also clears the rows beyond n.

/// `src`: a code a byte, kFp4E2m1 and kInt4 in the low four bits (the rest is 0), `stride` bytes from row to row.
void pack_codes(const CodedMatrix& matrix, int64_t row, int64_t count, const uint8_t* src, int64_t stride);
/// `src`: [count, runs] f32; what scale_dtype cannot hold is rounded to nearest even (E8M0: must be a power of two).
void pack_scales(const CodedMatrix& matrix, int64_t row, int64_t count, const float* src, int64_t stride);
/// `src`: [count, runs].
void pack_zeros(const CodedMatrix& matrix, int64_t row, int64_t count, const uint8_t* src, int64_t stride);
/// w[row, 0..k) in f32 (embedding look-up).
void unpack_codes(const CodedMatrix& matrix, int64_t row, float* out);

/// An ISA path's part; Kernels::quantised.
struct QuantisedKernels {
  /// Panels [panel_begin, panel_end); see matmul_coded. What multiplies the matrix has one type a matmul:
  ///   kF32   x as it is
  ///   kBF16  x rounded to bf16 (codes minus integral zeros are exact in bf16), or values of an activation quantised to E4M3
  ///   kU8    int8 codes of an activation plus 128 (quantise writes them); for Code::kInt8 and kInt4 with zeros up to 16, sums exact in
  ///          i32 for k up to 131072
  /// x.scales [rows, 1] multiplies an output, [rows, runs of w] the sum of a run.
  void (*matmul_panels)(const Activation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t panel_begin, int64_t panel_end);
  /// maxima[r, i] = the largest |x| of row r in run i; NaN when there is one. `run_end` as in CodedMatrix; {cols} for a whole row.
  void (*run_maxima)(ConstF32View x, Run<int32_t> run_end, F32View maxima);
  /// Codes of x / scale, where scales is [rows, runs] (stride 0: the same for all rows). By out.dtype:
  ///   kU8    128 + the integer nearest to x / scale, ties to even, within [-128, 127]; x must not be NaN (the code is then any)
  ///   kBF16  the E4M3 value nearest to x / scale, ties to even, within [-448, 448]; NaN stays NaN
  void (*quantise)(ConstF32View x, Run<int32_t> run_end, ConstF32View scales, MutableActivation out);
};

/// maxima (of one row or one run each, over all ranks) to scales, in place: maximum / 127 for codes kU8, / 448 for kBF16. 1 where that is
/// 0.
void scales_of_maxima(DType codes, F32View maxima);

/// CHECKs that matmul_panels can multiply x with w.
void check_input(const Activation& x, const CodedMatrix& w);

/// out[m, n] = sum over runs (+ bias[n]), as kernels::matmul: threads claim panels; bits depend on nothing else.
void matmul_coded(const Kernels& kernels, ThreadTeam& team, const Activation& x, const CodedMatrix& w, const float* bias, F32View out);

}  // namespace lamina::kernels
