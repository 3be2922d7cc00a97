#include "kernels/ceiling.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"

namespace lamina::kernels {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kRunLines = (int64_t{1} << 20) / kLine;  // what a thread claims at once
constexpr int kPasses = 5;

/// Units a second: the best of several timed passes. pass() returns the units it did.
template <class Pass>
double best_rate(Pass&& pass) {
  const SteadyClock clock;
  double best = 0.0;
  for (int i = 0; i < kPasses; ++i) {
    const int64_t begin = clock.now_ns();
    const double units = pass();
    best = std::max(best, units * 1e9 / static_cast<double>(std::max<int64_t>(1, clock.now_ns() - begin)));
  }
  return best;
}

}  // namespace

Result<Buffer> make_read_memory(ThreadTeam& team, size_t bytes) {
  const int64_t lines = std::max<int64_t>(1, static_cast<int64_t>(bytes) / kLine);
  LAMINA_ASSIGN(Buffer memory, Buffer::allocate(static_cast<size_t>(lines * kLine)));
  team.parallel_for(lines, kRunLines, [&](int64_t begin, int64_t end, int) {
    std::fill(memory.data() + begin * kLine, memory.data() + end * kLine, uint8_t{1});
  });
  return memory;
}

double measure_read_bandwidth(const Kernels& kernels, ThreadTeam& team, const Buffer& memory) {
  std::atomic<uint64_t> seen{0};
  return best_rate([&] {
    team.parallel_for(static_cast<int64_t>(memory.size()) / kLine, kRunLines, [&](int64_t begin, int64_t end, int) {
      seen.fetch_xor(kernels.read_lines(memory.data() + begin * kLine, end - begin), std::memory_order_relaxed);
    });
    return static_cast<double>(memory.size());
  });
}

double measure_dot_peak(const Kernels& kernels, ThreadTeam& team) {
  constexpr int64_t kRounds = 500'000;
  return best_rate([&] {
    std::atomic<int64_t> operations{0};
    team.run([&](int) { operations.fetch_add(static_cast<int64_t>(kernels.dot_burst(kRounds)), std::memory_order_relaxed); });
    return static_cast<double>(operations.load());
  });
}

}  // namespace lamina::kernels
