#pragma once
// SiLU-and-mul of a gated MLP.

#include "layers/context.h"
#include "layers/linear.h"

namespace lamina {

/// gate_up [rows, 2 * inner], gate first -> silu(gate) * up [rows, inner] in stage memory, in the type `consumer` multiplies.
Activation silu_and_mul(ForwardContext& ctx, ConstF32View gate_up, const LinearLayer& consumer);

}  // namespace lamina
