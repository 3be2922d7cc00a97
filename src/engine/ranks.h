#pragma once
// Which ranks this process runs: all of the topology as its own threads, or under mpirun one of them.

#include <memory>
#include <string_view>
#include <vector>

#include "engine/options.h"
#include "runner/step_executor.h"

namespace lamina {

/// Members are destroyed in reverse order: whoever communicates goes before what it communicates by.
struct RankSet {
  std::unique_ptr<RankFault> fault = std::make_unique<RankFault>();
  std::unique_ptr<ProcessWorld> world;  // null: the ranks are threads of this process
  std::vector<RankResources> ranks;     // of this process; runners are made once the model is loaded
  std::vector<ParallelGroups> groups;   // of the ranks, until their plans take them
  int first_rank = 0;                   // world rank of the first of them

  int threads_per_rank() const { return ranks.front().team->size(); }
  int threads() const { return threads_per_rank() * static_cast<int>(ranks.size()); }
};

/// Groups and teams for `options` (valid). A rank gets floor(threads / ranks) threads, at least one; processes of one machine share its
/// CPUs. Errors: MPI cannot be used, or mpirun started another number of processes than the topology has ranks.
Result<RankSet> open_ranks(const EngineOptions& options);

/// Every process learns whether one has failed, so that none waits for it. The first one that failed returns its own error; rank 0 says
/// who that is when it is not itself; the others return an empty message, as there is nothing to add. Thread ranks: `own` as it is.
Status agree(const RankSet& set, Status own);

/// Refuses when processes differ in the program or in `model`: whatever the bits of an answer depend on.
Status agree_on_build(const RankSet& set, std::string_view model);

}  // namespace lamina
