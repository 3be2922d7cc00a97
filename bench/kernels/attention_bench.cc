// Attention of a 1B model's layer (32 query heads, 8 kv heads of 64) and of Qwen3-0.6B's (16, 8 of 128): a prompt's prefill, and one
// token over a short or long context.

#include <time.h>

#include <numeric>

#include "bench/kernels/support.h"

namespace lamina::kernels::bench {
namespace {

/// Keys or values: small numbers, none of them NaN.
Buffer cache(DType dtype, int64_t count) {
  if (dtype == DType::kBF16) return numbers(dtype, count);
  Buffer buffer = allocate(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) buffer.data()[i] = static_cast<uint8_t>((i * 7919) >> 3 & 0x3F);
  return buffer;
}

/// Seconds on the clock that neighbours disturb least: CPU time of the one thread, if there is one (`taskset -c 1`), else wall time.
double seconds() {
  timespec now{};
  clock_gettime(team().size() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void attention_of(benchmark::State& state, DType kv) {
  const auto isa = static_cast<Isa>(state.range(0));
  const int64_t queries = state.range(1), tokens = state.range(2), q_heads = state.range(3), kv_heads = state.range(4),
                dim = state.range(5);
  if (!usable(isa)) return state.SkipWithError("this CPU has no such path");
  const Kernels& kernels = table(isa);
  const int64_t page_size = 16, pages = tokens / page_size, layers = std::max<int64_t>(1, 65536 / tokens);
  const Buffer keys = cache(kv, layers * tokens * kv_heads * dim);
  const Buffer values = cache(kv, layers * tokens * kv_heads * dim);
  const std::vector<float> scales(static_cast<size_t>(layers * tokens * kv_heads), 0.01F);
  const Buffer q = numbers(DType::kF32, queries * q_heads * dim);
  const Buffer out = allocate(static_cast<size_t>(queries * q_heads * dim) * 2);
  std::vector<int32_t> table_of_pages(static_cast<size_t>(pages));
  AttentionArgs args;
  args.q = ConstF32View(q.as<float>(), queries, q_heads * dim);
  args.out = {.dtype = DType::kBF16, .data = out.data(), .rows = queries, .cols = q_heads * dim, .stride = q_heads * dim};
  args.keys = {.dtype = kv, .base = keys.data(), .slot_stride = kv_heads * dim};
  args.values = {.dtype = kv, .base = values.data(), .slot_stride = kv_heads * dim};
  if (kv == DType::kI8) {
    args.keys.scales = args.values.scales = scales.data();
    args.keys.scale_stride = args.values.scale_stride = kv_heads;
  }
  args.page_size = page_size;
  args.q_heads = static_cast<int>(q_heads), args.kv_heads = static_cast<int>(kv_heads);
  args.qk_dim = args.v_dim = static_cast<int>(dim);
  args.scale = 0.125F;
  const AttentionSequence sequence{
      .query_count = queries, .query_position = tokens - queries, .kv_len = tokens, .pages = table_of_pages.data()};
  const Buffer scratch = allocate(static_cast<size_t>(team().size()) * attention_scratch_bytes(args));
  double best = 1e9;
  int64_t layer = 0;
  for (auto _ : state) {
    std::iota(table_of_pages.begin(), table_of_pages.end(), static_cast<int32_t>(layer++ % layers * pages));
    const double begin = seconds();
    attention(kernels, team(), args, std::span(&sequence, 1), scratch.data());
    best = std::min(best, seconds() - begin);
  }
  // Pairs of a query and a key it sees; 2 dim operations for the score, 2 dim for the value.
  const double pairs = static_cast<double>(queries) * (static_cast<double>(tokens) - static_cast<double>(queries - 1) / 2);
  const double operations = pairs * static_cast<double>(4 * dim * q_heads);
  const double bytes = static_cast<double>(tokens * kv_heads * dim * 2 * dtype_bytes(kv));
  state.counters["GFLOP/s"] = operations / best / 1e9;
  state.counters["kv_GB/s"] = bytes / best / 1e9;
  state.counters["of_peak"] = operations / best / dot_ceiling(kernels);
  state.counters["of_read"] = bytes / best / read_ceiling(kernels);
}

void attention_bf16(benchmark::State& state) { attention_of(state, DType::kBF16); }
void attention_e4m3(benchmark::State& state) { attention_of(state, DType::kF8E4M3); }
void attention_e5m2(benchmark::State& state) { attention_of(state, DType::kF8E5M2); }
void attention_int8(benchmark::State& state) { attention_of(state, DType::kI8); }

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"isa", "queries", "tokens", "q_heads", "kv_heads", "dim"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const int64_t isa : measured_isas()) {
    for (const int64_t tokens : {512, 4096}) b->Args({isa, 512, tokens, 32, 8, 64});
    b->Args({isa, 512, 512, 32, 32, 64});
    b->Args({isa, 512, 512, 32, 8, 128});
    b->Args({isa, 512, 512, 16, 8, 128});
    for (const int64_t tokens : {48, 512, 8192}) b->Args({isa, 1, tokens, 32, 8, 64});
    b->Args({isa, 1, 48, 16, 8, 128});
    b->Args({isa, 1, 8192, 32, 32, 64});
    b->Args({isa, 1, 8192, 32, 8, 128});
  }
}
BENCHMARK(attention_bf16)->Apply(shapes);
BENCHMARK(attention_e4m3)->Apply(shapes);
BENCHMARK(attention_e5m2)->Apply(shapes);
BENCHMARK(attention_int8)->Apply(shapes);

}  // namespace
}  // namespace lamina::kernels::bench
