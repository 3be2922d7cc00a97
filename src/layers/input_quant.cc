#include "layers/input_quant.h"

#include "kernels/quantised.h"

namespace lamina {

MutableActivation coded_input(ForwardContext& ctx, const InputCodes& codes, int64_t rows, int64_t cols) {
  MutableActivation out = ctx.arena().activation(codes.codes, rows, cols);
  if (codes.scale == nullptr) {
    out.scales = ctx.arena().matrix(rows, 1);
  } else {
    // A copy: ranks read each other's rows, and what belongs to them, in stage memory.
    out.scales = F32View(ctx.arena().take<float>(1), rows, 1, 0);
    *out.scales.data = *codes.scale;
  }
  return out;
}

void quantise_row(const kernels::Kernels& kernels, ConstF32View x, const MutableActivation& out) {
  const auto cols = static_cast<int32_t>(x.cols);
  const std::span<const int32_t> whole(&cols, 1);
  if (out.scales.stride != 0) {
    kernels.quantised->run_maxima(x, whole, out.scales);
    kernels::scales_of_maxima(out.dtype, out.scales);
  }
  kernels.quantised->quantise(x, whole, out.scales, out);
}

Activation coded_rows(ForwardContext& ctx, const InputCodes& codes, ConstF32View x) {
  const MutableActivation out = coded_input(ctx, codes, x.rows, x.cols);
  ctx.compute.team->parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) quantise_row(*ctx.compute.kernels, x.slice(r, 1), out.slice(r, 1));
  });
  return out.view();
}

size_t coded_rows_bytes(int64_t rows, int64_t cols, int threads) {
  constexpr int64_t kAlignment = 3 * 64;
  const int64_t row = cols * static_cast<int64_t>(sizeof(float)) + Arena::kActivationPad;
  return static_cast<size_t>(threads * row + rows * static_cast<int64_t>(sizeof(float)) + kAlignment);
}

}  // namespace lamina
