#pragma once
// What ends a run of several ranks: the first fault wins, every wait of every rank of the process ends, and the step's result is void.

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace lamina {

/// One a process, shared by all of its ranks' communicators. Thread-safe.
class RankFault {
 public:
  /// Keeps the first message. Whoever waits looks at raised() at least every 20 ms.
  void raise(std::string message);
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  /// Empty until raised.
  std::string message() const;

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string message_;
};

struct CommunicatorOptions {
  std::chrono::milliseconds deadline = std::chrono::minutes(5);  // --dist-timeout: a wait that takes longer is a fault
  int threads_of_process = 1;                                    // compute threads of all ranks of the process
  int cpus = 1;  // what the process may use; no spinning when threads or ranks outnumber them
};

}  // namespace lamina
