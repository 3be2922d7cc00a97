#pragma once
// How a thread rank waits for another: it spins briefly where that pays, then parks, and a fault or the deadline ends it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.h"
#include "base/spinner.h"
#include "parallel/rank_fault.h"

namespace lamina {

/// A count that one side advances after a change and the other watches while it waits for the change.
class alignas(64) Signal {
 public:
  uint32_t value() const { return word_.load(std::memory_order_acquire); }
  void advance() {
    word_.fetch_add(1);
    if (sleepers_.load() > 0) unpark_all(word_);
  }
  /// Sleeps while value() is `seen`, `limit` at most. A sleeper registers before the kernel looks at the word, and advance() looks for
  /// sleepers after it changed the word: one of them sees the other.
  void park_while(uint32_t seen, std::chrono::nanoseconds limit) {
    sleepers_.fetch_add(1);
    park(word_, seen, limit);
    sleepers_.fetch_sub(1);
  }

 private:
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

struct WaitRules {
  RankFault* fault = nullptr;
  std::chrono::milliseconds deadline{0};
  bool spins = false;
};

enum class Waited { kDone, kFault, kLate };

/// Waits until done(), whose change is followed by signal.advance(). A fault ends the wait within kFaultPoll.
template <class Done>
Waited wait_for(Signal& signal, Spinner& spinner, const WaitRules& rules, Done done) {
  constexpr std::chrono::nanoseconds kFaultPoll = std::chrono::milliseconds(20);
  const auto over = [&] { return done() || rules.fault->raised(); };
  if (rules.spins ? spinner.wait(over) : over()) return rules.fault->raised() ? Waited::kFault : Waited::kDone;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const uint32_t seen = signal.value();
    if (done()) return Waited::kDone;
    if (rules.fault->raised()) return Waited::kFault;
    const std::chrono::nanoseconds left = rules.deadline - (std::chrono::steady_clock::now() - start);
    if (left.count() <= 0) return Waited::kLate;
    signal.park_while(seen, std::min(left, kFaultPoll));
  }
}

}  // namespace lamina
