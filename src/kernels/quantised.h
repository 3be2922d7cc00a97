#pragma once
// Matmul over a matrix of codes that are expanded in registers inside the tile loop, never as a wide copy.
//
//   w[n, k] = (decode(code[n, k]) - zero[n, r]) * scale[n, r]       r: the run of k
//
// Runs are consecutive k that share a scale: one for per-channel scales, ceil(k / 32) for MXFP4, those of the 128-blocks (counted from the
// global input index, so the first and last of a shard may be short) for block FP8, groups sorted by g_idx for activation order. An output is
// the sum over runs, in order, of (scale of the run) * (sum over k of the run, in order, in f32 or exactly in i32).

#include <cstddef>
#include <cstdint>

#include "base/thread_team.h"
#include "tensor/view.h"

namespace lamina::kernels {

struct Kernels;

enum class Code {
  kInt8,      // signed
  kUInt8,     // 0..255, with zeros (GPTQ 8 bit)
  kInt4,      // 0..15, two a byte, with zeros; 2- and 3-bit codes are stored so too
  kFp8E4m3,   // OCP E4M3, no infinities
  kFp4E2m1    // 0 .5 1 1.5 2 3 4 6 and their negatives, two a byte
};
inline int code_bits(Code code) { return code == Code::kInt4 || code == Code::kFp4E2m1 ? 4 : 8; }

/// Panels of kPanelRows rows as PackedMatrix: within a panel k runs slowest. How codes of neighbouring k interleave is the kernels' own
/// affair (pack_codes and unpack_codes are the only ones that know).
struct CodedMatrix {
  Code code = Code::kInt8;
  int64_t n = 0;
  int64_t k = 0;
  int64_t runs = 1;
  const int32_t* run_end = nullptr;  // [runs], the last is k
  void* codes = nullptr;             // 64-byte aligned, bytes() bytes
  float* scales = nullptr;           // [panels][runs][kPanelRows]
  float* zeros = nullptr;            // likewise, in code units; null: 0

  int64_t panels() const;
  size_t code_bytes() const;   // of `codes`: k padded to a multiple of 4
  size_t scale_bytes() const;  // of `scales` (and of `zeros`)
};

/// What multiplies it. One type a matmul:
///   kF32   x as it is
///   kBF16  x rounded to bf16 (all codes are exact in bf16), or codes of a quantised activation with `scales`
///   kI8    codes of an activation quantised to int8, with `scales`; for Code::kInt8 and kInt4, sums exact in i32
struct CodedActivation {
  DType dtype = DType::kF32;
  const void* data = nullptr;  // [rows, cols], `stride` elements from row to row
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  const float* scales = nullptr;  // [rows][scale_runs]: multiplies the sum of a run; null: 1
  int64_t scale_runs = 1;         // 1, or runs of the matrix
};

/// out[m, n] = sum over runs (+ bias[n]), as kernels::matmul: threads claim panels; bits depend on nothing else.
void matmul_coded(const Kernels& kernels, ThreadTeam& team, const CodedActivation& x, const CodedMatrix& w, const float* bias, F32View out);

}  // namespace lamina::kernels
