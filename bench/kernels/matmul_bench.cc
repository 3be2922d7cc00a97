// Matmul over the shapes of a 1B model (hidden 2048, inner 8192, vocabulary 128256), against read bandwidth and dot-product peak.

#include "base/clock.h"
#include "bench/kernels/support.h"

namespace lamina::kernels::bench {
namespace {

/// Counters of a matmul: rates of the best iteration, and their share of the ceiling that bounds it.
void report(benchmark::State& state, const Kernels& kernels, double seconds, double operations, double bytes) {
  state.counters["GFLOP/s"] = operations / seconds / 1e9;
  state.counters["GB/s"] = bytes / seconds / 1e9;
  state.counters["of_peak"] = operations / seconds / dot_ceiling(kernels);
  state.counters["of_read"] = bytes / seconds / read_ceiling(kernels);
}

void matmul_bf16(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  const int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  if (!usable(isa)) return state.SkipWithError("this CPU has no such path");
  const Kernels& kernels = table(isa);
  // Enough copies of the weights that none is found in a cache, as in a model.
  PackedMatrix packed{.n = n, .k = k};
  const int64_t copies = std::max<int64_t>(1, (int64_t{512} << 20) / static_cast<int64_t>(packed.bytes()));
  const Buffer weights = numbers(DType::kBF16, copies * static_cast<int64_t>(packed.bytes()) / 2);
  const Buffer x = numbers(DType::kBF16, m * k);
  const Buffer out = allocate(static_cast<size_t>(m * n) * sizeof(float));
  const SteadyClock clock;
  double best = 1e9;
  int64_t copy = 0;
  for (auto _ : state) {
    packed.data = weights.data() + static_cast<size_t>(copy++ % copies) * packed.bytes();
    const int64_t begin = clock.now_ns();
    matmul(kernels, team(), MatrixView<const uint16_t>(x.as<uint16_t>(), m, k), packed, nullptr, F32View(out.as<float>(), m, n));
    best = std::min(best, static_cast<double>(clock.now_ns() - begin) * 1e-9);
  }
  report(state, kernels, best, 2.0 * static_cast<double>(m * n * k), static_cast<double>(packed.bytes()));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"isa", "m", "n", "k"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const int64_t isa : measured_isas())
    for (const int64_t m : {1, 4, 16, 64, 512})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{3072, 2048}, {2048, 2048}, {16384, 2048}, {2048, 8192}, {128256, 2048}}) {
        if (m == 512 && n == 128256) continue;  // the head sees a few rows only
        b->Args({isa, m, n, k});
      }
}
BENCHMARK(matmul_bf16)->Apply(shapes);

/// pack_rows from bf16 in the page cache's stead, all threads: the loader's inner part.
void pack(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  const auto from = static_cast<DType>(state.range(1));
  if (!usable(isa)) return state.SkipWithError("this CPU has no such path");
  const Kernels& kernels = table(isa);
  PackedMatrix packed{.n = 16384, .k = 2048};
  const Buffer source = numbers(from == DType::kF32 ? DType::kF32 : DType::kBF16, packed.n * packed.k);
  const Buffer target = numbers(DType::kBF16, static_cast<int64_t>(packed.bytes()) / 2);
  packed.data = target.data();
  const int64_t row_bytes = packed.k * dtype_bytes(from);
  for (auto _ : state)
    team().parallel_for(packed.panels(), 4, [&](int64_t begin, int64_t end, int) {
      kernels.pack_rows(packed, begin * kPanelRows, (end - begin) * kPanelRows, source.data() + begin * kPanelRows * row_bytes, from,
                        packed.k);
    });
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * packed.n * row_bytes);
}
BENCHMARK(pack)
    ->ArgNames({"isa", "from"})
    ->ArgsProduct({measured_isas(),
                   {static_cast<int64_t>(DType::kBF16), static_cast<int64_t>(DType::kF16), static_cast<int64_t>(DType::kF32)}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace lamina::kernels::bench
