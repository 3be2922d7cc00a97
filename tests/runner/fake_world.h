#pragma once
// Processes that are threads: what the executor of rank 0 and the workers of the others say to each other, without MPI.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/mpi.h"

namespace lamina::testing {

/// The worlds of all ranks. What a test puts in front of a result reaches rank 0 before it.
class FakeWorlds {
 public:
  FakeWorlds(int size, RankFault& fault);
  ~FakeWorlds();
  ProcessWorld& world(int rank);
  /// A result of `rank` that no runner made.
  void forge_result(int rank, std::vector<std::byte> bytes);
  /// A plan for `rank` that rank 0 did not send.
  void forge_plan(int rank, std::vector<std::byte> bytes);
  /// No result reaches rank 0 from now on.
  void lose_results();
  /// Whether every rank has called finish().
  bool finished() const;

 private:
  class World;
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<World>> worlds_;
};

}  // namespace lamina::testing
