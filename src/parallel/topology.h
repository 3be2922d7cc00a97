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
/// world rank = pp_rank * tp_size + tp_rank; tp_rank = dp_rank * attn_tp + attn_tp_rank.
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
  Communicator* communicator = nullptr;  // owned by ParallelGroups; null in a planned group of several ranks
};

/// All groups of one rank: tp, attn_tp, attn_dp, pp, world and those added.
class ParallelGroups {
 public:
  /// Groups of a single rank: every group has size 1.
  static ParallelGroups single();
  /// Groups of `rank` in `topology` for planning only (no communication): used by `inspect` and shard tests.
  /// Errors name the flag: a size below 1, or --tp-size that --dp-attention does not divide.
  static Result<ParallelGroups> planned(const Topology& topology, int rank);
  /// One group named `name` over `communicator` and single groups for the rest (unit tests of layers at P > 1).
  static ParallelGroups over(std::string_view name, std::unique_ptr<Communicator> communicator);

  ParallelGroups(ParallelGroups&&) = default;
  ParallelGroups& operator=(ParallelGroups&&) = default;

  /// The group called `name`, or an error that lists the groups that exist ("must exist before construction").
  Result<const ParallelGroup*> find(std::string_view name) const;

  /// A group in which `factor` neighbouring ranks of `base` stand for one (rank / factor of size / factor): where heads of a KV group
  /// that is smaller than tp are declared. For shard arithmetic only; it has no communicator. Errors: no `base`, `name` taken, no divisor.
  Status add_replicated(std::string_view name, std::string_view base, int factor);

 private:
  ParallelGroups() = default;
  /// A null communicator of a group of one rank becomes a SelfCommunicator.
  void set(ParallelGroup group, std::unique_ptr<Communicator> communicator);

  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<ParallelGroup>> groups_;
};

}  // namespace lamina
