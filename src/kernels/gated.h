#pragma once
// gate_proj and up_proj of a gated MLP in one loop over panels: silu(gate) * up is taken of each tile while it lies in the second-level
// cache, and [rows, 2 * inner] is never in memory as a whole. The bits are those of matmul and silu_and_mul one after the other.

#include <cstddef>

#include "kernels/quantised.h"

namespace lamina::kernels {

/// Whether a matrix of n rows, gate's and then as many of up, has each half in panels of its own.
inline bool halves_are_panels(int64_t n) { return n > 0 && n % (2 * kPanelRows) == 0; }

size_t gated_scratch_bytes(int threads);

struct GatedOutput {
  MutableActivation rows;   // [rows, n / 2] = silu(gate) * up, f32 or bf16, not coded
  void* scratch = nullptr;  // gated_scratch_bytes(team.size()), 64-byte aligned
};

/// bias [n] may be null.
void matmul_gated(const Kernels& kernels, ThreadTeam& team, const Activation& x, const PackedMatrix& gate_up, const float* bias,
                  const GatedOutput& out);
void matmul_gated(const Kernels& kernels, ThreadTeam& team, const Activation& x, const CodedMatrix& gate_up, const float* bias,
                  const GatedOutput& out);

}  // namespace lamina::kernels
