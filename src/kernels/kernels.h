#pragma once
// The operations, one table of function pointers an ISA path. Pure functions on views: no allocation, no globals, no errors.
// Every path obeys the numeric contract (docs/ARCHITECTURE.md): one output element is accumulated in the same order whatever the number of
// rows, threads or chunks; bits may differ between paths, never within one.

#include <concepts>
#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "base/thread_team.h"
#include "kernels/attention.h"
#include "kernels/packed.h"
#include "tensor/view.h"

namespace lamina::kernels {

/// Epsilon, weight and rounding of one RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * weight.
struct RmsNormArgs {
  const float* weight = nullptr;  // [cols]
  float eps = 1e-6F;
};

/// What is added to a residual: ((p0 + p1) + p2) ..., in this order, row r of the residual with row first_row + r of each part.
struct Addends {
  const ConstF32View* parts = nullptr;
  int64_t count = 0;  // at least 1
  int64_t first_row = 0;
};

/// Rotation of the first `rotary_dim` of each head, the rest passes through. Neox pairs (i, i + rd/2); gptj pairs (2i, 2i+1).
struct RopeArgs {
  ConstF32View cos_sin;  // [tokens, rotary_dim]: rd/2 cosines then rd/2 sines of each token
  int head_dim = 0;
  int rotary_dim = 0;
  bool neox = true;
};

/// Keys or values of one layer: where row `slots[t]` of the pool begins. Element type kF32, kBF16, kF8E4M3, kF8E5M2 or kI8. In 8 bits the
/// nearest to x / scale is stored, ties to even, saturating (int8 within [-128, 127]); kI8 may have a scale of its own for each head of
/// each slot, the head's largest |x| / 127 (1 when that is 0), which is stored too.
struct KvTarget {
  DType dtype = DType::kBF16;
  void* base = nullptr;      // [slots, heads, head_dim]
  int64_t slot_stride = 0;   // elements from slot to slot
  float scale = 1.0F;        // of the layer, 8 bits only; 1 with `scales`
  float* scales = nullptr;   // kI8: [slots, heads], filled; null: `scale` alone
  int64_t scale_stride = 0;  // elements from slot to slot
  int head_dim = 0;          // needed with `scales`
};

/// A contiguous run of values, made from anything a std::span takes. Plain data: the ISA translation units must not instantiate
/// inline functions of the library, which the linker could merge into code that runs on every CPU.
template <class T>
struct Run {
  const T* data = nullptr;
  int64_t size = 0;
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const T>>
  Run(const Range& range) {  // NOLINT(google-explicit-constructor)
    const std::span<const T> span(range);
    data = span.data();
    size = static_cast<int64_t>(span.size());
  }
};

struct QuantisedKernels;  // quantised.h
struct WeightQuant;       // quantise_weights.h

struct Kernels {
  Isa isa = Isa::kRef;
  const QuantisedKernels* quantised = nullptr;

  // --- matmul -------------------------------------------------------------------------------------------------------------------
  /// Packs rows [row, row + count) of a source matrix (row-major [.., K] of `src_dtype`, `src` = first of these rows) into `packed`;
  /// rounds when the panel type is narrower. src_dtype is kF32, kF16 or kBF16; src_stride counts elements; `src` need not be aligned.
  /// The call that packs row n - 1 also clears the rows beyond n. Threads may pack different panels at once, never parts of one.
  void (*pack_rows)(const PackedMatrix& packed, int64_t row, int64_t count, const void* src, DType src_dtype, int64_t src_stride);
  /// Copies row `row` of `packed` to out[0, K) in f32 (embedding look-up out of the packed copy).
  void (*unpack_row)(const PackedMatrix& packed, int64_t row, float* out);
  /// out[m, n] = sum_k x[m, k] * w[n, k] (+ bias[n]) for panels [panel_begin, panel_end) of w. x must be bf16 when
  /// `packed.compute == kBF16`, else f32. Accumulates in f32 over the whole K in one order for every number of rows.
  /// x.cols == packed.k. out has x.rows rows and at least packed.n columns; columns >= packed.n are not written. bias may be null.
  void (*matmul_panels)(const Activation& x, const PackedMatrix& packed, const float* bias, F32View out, int64_t panel_begin,
                        int64_t panel_end);

  // --- rows (each works on rows [0, rows) of its views; callers split rows over threads) -------------------------------------------
  void (*rms_norm)(ConstF32View x, const RmsNormArgs& args, MutableActivation out);
  /// residual += the sum of the addends, then out = rms_norm(residual); one pass.
  void (*add_rms_norm)(F32View residual, const Addends& addends, const RmsNormArgs& args, MutableActivation out);
  void (*add_rows)(F32View residual, ConstF32View x);
  /// In place on each of `heads` heads of a row: RMSNorm over head_dim (QK-norm). weight is [head_dim].
  void (*head_rms_norm)(F32View x, int heads, int head_dim, const RmsNormArgs& args);
  void (*rope)(F32View x, int heads, const RopeArgs& args);
  /// gate_up [rows, 2 * inner] (gate first): out = silu(gate) * up.
  void (*silu_and_mul)(ConstF32View gate_up, MutableActivation out);
  void (*round_to_bf16)(ConstF32View x, MutableActivation out);
  /// Writes x [tokens, heads * head_dim] to the pool at slots[t], rounded to the target's dtype. Without a scale, NaN stays NaN.
  void (*store_kv)(ConstF32View x, Run<int64_t> slots, KvTarget target);

  // --- attention ------------------------------------------------------------------------------------------------------------------
  /// One work item; see attention.h.
  void (*attention_item)(const AttentionArgs& args, const AttentionItem& item, void* scratch);

  // --- sampling -------------------------------------------------------------------------------------------------------------------
  /// Index of the largest value, lowest index on ties; NaN never wins. -1 when every value is NaN.
  int64_t (*argmax)(Run<float> values);
  /// log(sum(exp(values))): f32 exponentials of differences to the maximum, f64 sum of their block sums. -inf when all are.
  double (*log_sum_exp)(Run<float> values);

  // --- weights to codes (see quantise_weights.h) ------------------------------------------------------------------------------------
  void (*quantise_weights)(const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales);

  // --- ceilings (see ceiling.h) ------------------------------------------------------------------------------------------------------
  /// Runs `rounds` rounds of multiply-adds of this path's bf16 matmul over independent accumulators; the floating-point operations done.
  double (*dot_burst)(int64_t rounds);
  /// Reads `count` 64-byte lines once, in order; returns something that depends on all of them.
  uint64_t (*read_lines)(const void* data, int64_t count);
};

/// The table of a path; CHECK that this CPU has it (choose_isa decides). Constant-initialised, no state.
const Kernels& table(Isa isa);

/// matmul over the whole matrix on all threads: threads claim runs of panels, never a part of K.
void matmul(const Kernels& kernels, ThreadTeam& team, const Activation& x, const PackedMatrix& packed, const float* bias, F32View out);

/// attention_item over all of `sequences`, items claimed by all threads. `scratch`: team.size() * attention_scratch_bytes(args) bytes,
/// 64-byte aligned. Rows of `out` that belong to no sequence are not touched.
void attention(const Kernels& kernels, ThreadTeam& team, const AttentionArgs& args, std::span<const AttentionSequence> sequences,
               void* scratch);

}  // namespace lamina::kernels
