#pragma once
// What the kernel benchmarks share. Every program measures the machine's ceilings first and reports fractions of them.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/ceiling.h"
#include "kernels/kernels.h"

namespace lamina::kernels::bench {

inline ThreadTeam& team() {
  static ThreadTeam threads(usable_cpus(), usable_cpus());
  return threads;
}

inline Buffer allocate(size_t bytes) {
  auto buffer = Buffer::allocate(bytes);
  LAMINA_CHECK(buffer.ok(), "benchmark memory");
  return std::move(buffer).value();
}

/// Memory filled with small bf16 or f32 numbers that vary.
inline Buffer numbers(DType dtype, int64_t count) {
  Buffer buffer = allocate(static_cast<size_t>(count * dtype_bytes(dtype)));
  team().parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = static_cast<float>((i * 7919) % 1021 - 510) * 0x1p-10F;
      if (dtype == DType::kF32)
        buffer.as<float>()[i] = value;
      else
        buffer.as<uint16_t>()[i] = f32_to_bf16(value);
    }
  });
  return buffer;
}

/// The paths that are measured, as arguments of a benchmark.
inline std::vector<int64_t> measured_isas() {
  return {static_cast<int64_t>(Isa::kAvx512), static_cast<int64_t>(Isa::kAvx512F), static_cast<int64_t>(Isa::kAvx2),
          static_cast<int64_t>(Isa::kNeon)};
}

inline bool usable(Isa isa) { return supports(decode_features(read_cpuid()), isa); }

/// Best read bandwidth seen so far; measured again at each call, so that the ceiling and what is compared with it lie side by side.
inline double read_ceiling(const Kernels& kernels) {
  static double best = 0.0;
  auto memory = make_read_memory(team(), size_t{256} << 20);
  LAMINA_CHECK(memory.ok(), "benchmark memory");
  return best = std::max(best, measure_read_bandwidth(kernels, team(), *memory));
}

inline double dot_ceiling(const Kernels& kernels) { return measure_dot_peak(kernels, team()); }

}  // namespace lamina::kernels::bench
