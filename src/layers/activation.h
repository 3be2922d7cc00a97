#pragma once
// SiLU-and-mul of a gated MLP.

#include "layers/context.h"
#include "layers/linear.h"

namespace lamina {

/// gate_up [rows, 2 * inner], gate first -> silu(gate) * up [rows, inner] in stage memory, in the type `consumer` multiplies or as the
/// codes it says.
Activation silu_and_mul(ForwardContext& ctx, ConstF32View gate_up, const LinearLayer& consumer);
/// The same of what `gate_up` makes of x, in one loop where its weights can.
Activation silu_and_mul(ForwardContext& ctx, const MergedColumnParallelLinear& gate_up, const Activation& x, const LinearLayer& consumer);
/// Stage memory that either takes for `rows` rows, besides gate_up's.
size_t silu_stage_bytes(const LinearLayer& consumer, int64_t rows, int threads);

}  // namespace lamina
