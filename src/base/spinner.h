#pragma once
// Waiting a moment for another thread without going to sleep.

#include <chrono>
#include <cstdint>

namespace lamina {

/// Tells the processor that this thread spins.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // waits some tens of cycles; `yield` is no more than a nop on most cores
#endif
}

/// Decides between spinning and parking for one waiting thread. Spinning pays while the other side runs on another CPU. When a neighbour
/// holds that CPU, the one waited for may need this one, and each spin delays it: after a few spins in vain only every 16th wait spins.
class Spinner {
 public:
  /// True as soon as done(); false when the caller should park.
  template <class Done>
  bool wait(Done done) {
    if (misses_ >= kGiveUp && ++skipped_ % kProbe != 0) return done();
    const bool met = spin(done);
    misses_ = met ? 0 : misses_ + 1;
    return met;
  }

 private:
  template <class Done>
  static bool spin(Done done) {
    // The clock is read once in 32 rounds: reading it costs more than a pause.
    for (auto deadline = std::chrono::steady_clock::time_point::max();;) {
      for (int round = 0; round < 32; ++round) {
        if (done()) return true;
        pause_cpu();
      }
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) return false;
      if (deadline == std::chrono::steady_clock::time_point::max()) deadline = now + kSpin;
    }
  }

  static constexpr auto kSpin = std::chrono::microseconds(50);
  static constexpr uint32_t kGiveUp = 4, kProbe = 16;
  uint32_t misses_ = 0;
  uint32_t skipped_ = 0;
};

}  // namespace lamina
