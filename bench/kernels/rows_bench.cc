// What a layer does row by row between its products.

#include <time.h>

#include "bench/kernels/support.h"

namespace lamina::kernels::bench {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Best time of `once` over `rows` rows, in nanoseconds a row.
template <class F>
void measure(benchmark::State& state, int64_t rows, F&& once) {
  double best = 1e9;
  for (auto _ : state) {
    const double begin = cpu_seconds();
    once();
    best = std::min(best, cpu_seconds() - begin);
  }
  state.counters["ns/row"] = best / static_cast<double>(rows) * 1e9;
}

constexpr int64_t kRows = 64, kHeads = 16, kDim = 128, kHidden = 1024;
constexpr RmsNormArgs norm_args(const float* weight) { return {.weight = weight, .eps = 1e-6F}; }

void head_rms_norm(benchmark::State& state) {
  const Kernels& kernels = table(static_cast<Isa>(state.range(0)));
  const Buffer x = numbers(DType::kF32, kRows * kHeads * kDim), weight = numbers(DType::kF32, kDim);
  measure(state, kRows, [&] { kernels.head_rms_norm({x.as<float>(), kRows, kHeads * kDim}, kHeads, kDim, norm_args(weight.as<float>())); });
}

void rope(benchmark::State& state) {
  const Kernels& kernels = table(static_cast<Isa>(state.range(0)));
  const Buffer x = numbers(DType::kF32, kRows * kHeads * kDim), angles = numbers(DType::kF32, kRows * kDim);
  const RopeArgs args{.cos_sin = {angles.as<float>(), kRows, kDim}, .head_dim = kDim, .rotary_dim = kDim};
  measure(state, kRows, [&] { kernels.rope({x.as<float>(), kRows, kHeads * kDim}, kHeads, args); });
}

void add_rms_norm(benchmark::State& state) {
  const Kernels& kernels = table(static_cast<Isa>(state.range(0)));
  const Buffer residual = numbers(DType::kF32, kRows * kHidden), part = numbers(DType::kF32, kRows * kHidden),
               weight = numbers(DType::kF32, kHidden), out = allocate(kRows * kHidden * 2);
  const ConstF32View parts[] = {{part.as<float>(), kRows, kHidden}};
  const MutableActivation target{.dtype = DType::kBF16, .data = out.data(), .rows = kRows, .cols = kHidden, .stride = kHidden};
  measure(state, kRows, [&] {
    kernels.add_rms_norm({residual.as<float>(), kRows, kHidden}, {.parts = parts, .count = 1}, norm_args(weight.as<float>()), target);
  });
}

void silu_and_mul(benchmark::State& state) {
  const Kernels& kernels = table(static_cast<Isa>(state.range(0)));
  const int64_t inner = 3072;
  const Buffer x = numbers(DType::kF32, kRows * 2 * inner), out = allocate(static_cast<size_t>(kRows * inner * 2));
  const MutableActivation target{.dtype = DType::kBF16, .data = out.data(), .rows = kRows, .cols = inner, .stride = inner};
  measure(state, kRows, [&] { kernels.silu_and_mul({x.as<float>(), kRows, 2 * inner}, target); });
}

BENCHMARK(head_rms_norm)->ArgName("isa")->ArgsProduct({measured_isas()});
BENCHMARK(rope)->ArgName("isa")->ArgsProduct({measured_isas()});
BENCHMARK(add_rms_norm)->ArgName("isa")->ArgsProduct({measured_isas()});
BENCHMARK(silu_and_mul)->ArgName("isa")->ArgsProduct({measured_isas()});

}  // namespace
}  // namespace lamina::kernels::bench
