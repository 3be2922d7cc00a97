#include "layers/activation.h"

namespace lamina {

Activation silu_and_mul(ForwardContext& ctx, ConstF32View gate_up, const LinearLayer& consumer) {
  const MutableActivation out = ctx.arena().activation(consumer.input_dtype(), gate_up.rows, gate_up.cols / 2);
  ctx.compute.team->parallel_for(gate_up.rows, 1, [&](int64_t begin, int64_t end, int) {
    ctx.compute.kernels->silu_and_mul(gate_up.slice(begin, end - begin), out.slice(begin, end - begin));
  });
  return out.view();
}

}  // namespace lamina
