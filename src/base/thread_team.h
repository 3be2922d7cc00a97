#pragma once
// One team of threads a process; the caller is thread 0.

#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/numa.h"

namespace lamina {

/// Runs one job at a time on all threads. Workers spin briefly, then park; they never spin when threads outnumber CPUs. While other
/// processes keep them off their CPUs the caller does all the work (crowding.h).
class ThreadTeam {
 public:
  /// `threads` >= 1; `cpus` is what the process may use (decides whether workers spin at all). When the system refuses a thread the team
  /// is smaller: see size(). The team's own threads stay at `place`; so does the caller while it is a PlacedThread there.
  explicit ThreadTeam(int threads, int cpus, ThreadPlace place = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  const ThreadPlace& place() const;

  /// Calls f(thread_index) once for each thread and returns when all are done; the calls may follow each other. No allocation, no lock in
  /// the common case. Not re-entrant: f must not call run.
  template <class F>
  void run(F&& f) {
    using Fn = std::remove_reference_t<F>;
    run_raw([](void* context, int thread) { (*static_cast<Fn*>(context))(thread); }, const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// Splits [0, n) in chunks that threads claim in order; calls f(begin, end, thread_index). A chunk is a multiple of `grain` (>= 1) except
  /// the last, which ends at n; about four a thread where n allows. One chunk, or one thread: a direct call.
  /// Which thread gets which chunk is not fixed: a result must not depend on it.
  template <class F>
  void parallel_for(int64_t n, int64_t grain, F&& f) {
    using Fn = std::remove_reference_t<F>;
    parallel_raw(
        n, grain, [](void* context, int64_t begin, int64_t end, int thread) { (*static_cast<Fn*>(context))(begin, end, thread); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  using Job = void (*)(void* context, int thread);
  using RangeJob = void (*)(void* context, int64_t begin, int64_t end, int thread);
  void run_raw(Job job, void* context);
  void parallel_raw(int64_t n, int64_t grain, RangeJob job, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lamina
