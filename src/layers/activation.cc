#include "layers/activation.h"

#include "kernels/gated.h"
#include "layers/input_quant.h"

namespace lamina {

Activation silu_and_mul(ForwardContext& ctx, ConstF32View gate_up, const LinearLayer& consumer) {
  const kernels::Kernels& kernels = *ctx.compute.kernels;
  const int64_t inner = gate_up.cols / 2;
  if (const std::optional<InputCodes> codes = consumer.input_codes()) {
    const MutableActivation out = coded_input(ctx, *codes, gate_up.rows, inner);
    make_coded_rows(ctx, out, 1, [&](int64_t r, const MutableActivation& row) { kernels.silu_and_mul(gate_up.slice(r, 1), row); });
    return out.view();
  }
  const MutableActivation out = ctx.arena().activation(consumer.input_dtype(), gate_up.rows, inner);
  ctx.compute.team->parallel_for(gate_up.rows, 1, [&](int64_t begin, int64_t end, int) {
    kernels.silu_and_mul(gate_up.slice(begin, end - begin), out.slice(begin, end - begin));
  });
  return out.view();
}

Activation silu_and_mul(ForwardContext& ctx, const MergedColumnParallelLinear& gate_up, const Activation& x, const LinearLayer& consumer) {
  if (!gate_up.can_gate()) return silu_and_mul(ctx, gate_up.forward(ctx, x), consumer);
  const std::optional<InputCodes> codes = consumer.input_codes();
  const DType dtype = codes ? DType::kF32 : consumer.input_dtype();
  const MutableActivation out = ctx.arena().activation(dtype, x.rows, gate_up.local_out() / 2);
  gate_up.forward_gated(ctx, x, out);
  return codes ? coded_rows(ctx, *codes, out.view().f32()) : out.view();
}

size_t silu_stage_bytes(const LinearLayer& consumer, int64_t rows, int threads) {
  const int64_t inner = consumer.local_in();
  return static_cast<size_t>(rows * (inner * 4 + Arena::kActivationPad)) + 64 + coded_rows_bytes(rows, inner, threads) +
         kernels::gated_scratch_bytes(threads) + 64;
}

}  // namespace lamina
