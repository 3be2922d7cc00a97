// Matmul over codes in the shapes of a 1B model, against read bandwidth (codes, scales and zeros as stored) and the bf16 peak.

#include <vector>

#include "base/clock.h"
#include "bench/kernels/support.h"
#include "kernels/quantised.h"

namespace lamina::kernels::bench {
namespace {

/// A way of storing weights and what multiplies them.
struct Scheme {
  const char* name;
  Code code;
  DType input;
  int64_t run;  // 0: the whole row
  DType scales;
  bool zeros;
};
constexpr Scheme kSchemes[] = {
    {"int8_w8a8", Code::kInt8, DType::kU8, 0, DType::kF32, false},
    {"int4_g32_w4a8", Code::kInt4, DType::kU8, 32, DType::kF16, false},
    {"int4_g128_w4a8", Code::kInt4, DType::kU8, 128, DType::kF16, false},
    {"int4_g128_zeros_w4a16", Code::kInt4, DType::kBF16, 128, DType::kF16, true},
    {"int4_g32_w4a16", Code::kInt4, DType::kBF16, 32, DType::kF16, false},
    {"int8_w8a16", Code::kInt8, DType::kBF16, 0, DType::kF32, false},
    {"e4m3_channel", Code::kFp8E4m3, DType::kBF16, 0, DType::kF32, false},
    {"e4m3_block128", Code::kFp8E4m3, DType::kBF16, 128, DType::kF32, false},
    {"mxfp4", Code::kFp4E2m1, DType::kBF16, 32, DType::kU8, false},
    {"int4_g128_f32", Code::kInt4, DType::kF32, 128, DType::kF16, false},
};

Buffer bytes(size_t size, uint8_t keep, uint8_t set) {
  Buffer buffer = allocate(size);
  team().parallel_for(static_cast<int64_t>(size), 1 << 20, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) buffer.data()[i] = static_cast<uint8_t>(((i * 7919) >> 3 & keep) | set);
  });
  return buffer;
}

/// Bytes that are small numbers in the type of the scales.
Buffer scale_memory(DType dtype, size_t size) {
  if (dtype == DType::kF32) return numbers(DType::kF32, static_cast<int64_t>(size) / 4);
  return bytes(size, 0x1F, dtype == DType::kU8 ? 0x60 : 0x20);
}

void matmul_coded(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  const Scheme& scheme = kSchemes[state.range(1)];
  const int64_t m = state.range(2), n = state.range(3), k = state.range(4);
  if (!usable(isa)) return state.SkipWithError("this CPU has no such path");
  const Kernels& kernels = table(isa);
  std::vector<int32_t> ends;
  const int64_t run = scheme.run == 0 ? k : scheme.run;
  for (int64_t end = run; end <= k; end += run) ends.push_back(static_cast<int32_t>(end));
  CodedMatrix w{.code = scheme.code,
                .n = n,
                .k = k,
                .runs = static_cast<int64_t>(ends.size()),
                .run_end = ends.data(),
                .scale_dtype = scheme.scales,
                .zero = scheme.code == Code::kInt4 ? 8 : 0};
  const size_t all = w.code_bytes() + w.scale_bytes() + (scheme.zeros ? w.zero_bytes() : 0);
  // Enough copies of the weights that none is found in a cache, as in a model.
  const size_t copies = std::max<size_t>(1, (size_t{512} << 20) / all);
  const Buffer codes = bytes(copies * w.code_bytes(), scheme.code == Code::kFp8E4m3 ? 0x77 : 0xFF, 0);
  const Buffer scales = scale_memory(scheme.scales, copies * w.scale_bytes());
  const Buffer zeros = bytes(scheme.zeros ? copies * w.zero_bytes() : 64, 0x0F, 0);
  const Buffer x = scheme.input == DType::kU8 ? bytes(static_cast<size_t>(m * k), 0xFF, 0) : numbers(scheme.input, m * k);
  const std::vector<float> x_scales(static_cast<size_t>(m), 0.01F);
  const Buffer out = allocate(static_cast<size_t>(m * n) * sizeof(float));
  Activation input;
  input.dtype = scheme.input, input.data = x.data(), input.rows = m, input.cols = k, input.stride = k;
  input.scales = ConstF32View(x_scales.data(), m, 1);
  const SteadyClock clock;
  double best = 1e9;
  size_t copy = 0;
  for (auto _ : state) {
    w.codes = codes.data() + copy * w.code_bytes();
    w.scales = scales.data() + copy * w.scale_bytes();
    if (scheme.zeros) w.zeros = zeros.data() + copy * w.zero_bytes();
    copy = (copy + 1) % copies;
    const int64_t begin = clock.now_ns();
    kernels::matmul_coded(kernels, team(), input, w, nullptr, F32View(out.as<float>(), m, n));
    best = std::min(best, static_cast<double>(clock.now_ns() - begin) * 1e-9);
  }
  const double operations = 2.0 * static_cast<double>(m * n * k), read = static_cast<double>(all);
  state.SetLabel(scheme.name);
  state.counters["GFLOP/s"] = operations / best / 1e9;
  state.counters["GB/s"] = read / best / 1e9;
  state.counters["of_bf16_peak"] = operations / best / dot_ceiling(kernels);
  state.counters["of_read"] = read / best / read_ceiling(kernels);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"isa", "scheme", "m", "n", "k"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const int64_t isa : measured_isas())
    for (int64_t scheme = 0; scheme < static_cast<int64_t>(std::size(kSchemes)); ++scheme)
      for (const int64_t m : {1, 4, 16, 512})
        for (const auto& [n, k] : {std::pair<int64_t, int64_t>{16384, 2048}, {2048, 8192}}) b->Args({isa, scheme, m, n, k});
}
BENCHMARK(matmul_coded)->Apply(shapes);

/// Rows of 2048 to codes, with their maxima.
void quantise_rows(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  const auto dtype = static_cast<DType>(state.range(1));
  if (!usable(isa)) return state.SkipWithError("this CPU has no such path");
  const QuantisedKernels& kernels = *table(isa).quantised;
  const int64_t rows = 64, cols = 2048;
  const std::vector<int32_t> ends{static_cast<int32_t>(cols)};
  const Buffer x = numbers(DType::kF32, rows * cols);
  const Buffer out = allocate(static_cast<size_t>(rows * cols) * 2);
  std::vector<float> scales(static_cast<size_t>(rows));
  for (auto _ : state) {
    const ConstF32View view(x.as<float>(), rows, cols);
    kernels.run_maxima(view, ends, F32View(scales.data(), rows, 1));
    scales_of_maxima(dtype, F32View(scales.data(), rows, 1));
    kernels.quantise(view, ends, ConstF32View(scales.data(), rows, 1),
                     {.dtype = dtype, .data = out.data(), .rows = rows, .cols = cols, .stride = cols});
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * rows * cols);
}
BENCHMARK(quantise_rows)
    ->ArgNames({"isa", "codes"})
    ->ArgsProduct({measured_isas(), {static_cast<int64_t>(DType::kU8), static_cast<int64_t>(DType::kBF16)}});

}  // namespace
}  // namespace lamina::kernels::bench
