#pragma once
// Where a rank stands: named groups that layers receive by name.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "parallel/communicator.h"

namespace lamina {

/// Sizes asked for on the command line. Attention data parallelism lives inside tp: attention TP = tp / dp_attention.
struct Topology {
  int tp_size = 1;
  int pp_size = 1;
  int dp_attention = 1;

  int world_size() const { return tp_size * pp_size; }
};

/// One rank's membership in a group. Layers keep a pointer to it; it outlives them.
struct ParallelGroup {
  std::string name;       // "tp", "attn_tp", "attn_dp", "pp", "world"
  std::string size_flag;  // the flag to change when a size does not divide: "--tp-size"
  int size = 1;
  int rank = 0;
  Communicator* communicator = nullptr;  // owned by ParallelGroups
};

/// All groups of one rank.
class ParallelGroups {
 public:
  /// Groups of a single rank: every group has size 1.
  static ParallelGroups single();
  /// Groups of `rank` in `topology` for planning only (no communication): used by `inspect` and shard tests.
  static Result<ParallelGroups> planned(const Topology& topology, int rank);
  /// One group named `name` over `communicator` and single groups for the rest (unit tests of layers at P > 1).
  static ParallelGroups over(std::string_view name, std::unique_ptr<Communicator> communicator);

  ParallelGroups(ParallelGroups&&) = default;
  ParallelGroups& operator=(ParallelGroups&&) = default;

  /// The group called `name`, or an error that lists the groups that exist ("must exist before construction").
  Result<const ParallelGroup*> find(std::string_view name) const;

 private:
  ParallelGroups() = default;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<ParallelGroup>> groups_;
};

}  // namespace lamina
