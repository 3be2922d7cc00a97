#pragma once
// Runs step plans on every rank of the topology and brings their results back in order. The engine knows no rank beyond this door.

#include <memory>
#include <vector>

#include "parallel/mpi.h"
#include "runner/model_runner.h"
#include "scheduler/step.h"

namespace lamina {

/// Used by one thread, which is rank 0's: it computes that rank's part of a plan in submit().
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  /// Plans that may be in flight at once: the pipeline's stages.
  virtual int depth() const = 0;
  /// Hands a plan to every rank; fewer than depth() are in flight. Returns when rank 0 has done its part. The plan may change then.
  virtual void submit(const StepPlan& plan) = 0;
  /// The result of the oldest plan in flight; waits. `result.fault` says that the ranks cannot go on: what is submitted after it is not
  /// run.
  virtual void wait(StepResult& result) = 0;
};

/// One rank in the caller's thread.
std::unique_ptr<StepExecutor> make_inline_executor(ModelRunner& runner);

/// A rank of this process: its runner and its team, both used by that rank's thread alone.
struct RankResources {
  std::unique_ptr<ThreadTeam> team;
  std::unique_ptr<ModelRunner> runner;
};
/// Rank 0 in the caller's thread, every other rank of `topology` a thread of this process; `ranks` in order of world rank. All of them and
/// `fault` outlive the executor, whose destructor waits for plans in flight.
std::unique_ptr<StepExecutor> make_thread_executor(const Topology& topology, std::vector<RankResources>& ranks, RankFault& fault);

/// Rank 0 of several processes, in the caller's thread, which is the one that communicates. A result that takes longer than `deadline` is a
/// fault. The destructor ends the world unless a fault did.
std::unique_ptr<StepExecutor> make_process_executor(const Topology& topology, RankResources& rank, ProcessWorld& world, RankFault& fault,
                                                    std::chrono::milliseconds deadline = CommunicatorOptions().deadline);
/// The other processes: runs the plans of rank 0 until the world ends. An error when it ended by a fault.
Status run_process_worker(RankResources& rank, ProcessWorld& world, RankFault& fault);

/// Adds what another rank reports for the same step: the entries' tokens, logits, embeddings and captured states that `into` lacks.
void merge(StepResult& into, StepResult&& part);

}  // namespace lamina
