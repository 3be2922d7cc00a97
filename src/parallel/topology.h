#pragma once
// Where a rank stands: sizes as on the command line, and named groups that layers receive by name.

#include <functional>
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
  bool dp_lm_head = false;  // --enable-dp-lm-head: the head is cut over attn_tp, each attention-DP rank has its own rows' logits
  std::vector<int> pp_layer_partition;  // --pp-layer-partition: layers of each stage; empty: even, the last stages get one more

  int world_size() const { return tp_size * pp_size; }
  int attn_tp() const { return tp_size / dp_attention; }
  int pp_rank(int rank) const { return rank / tp_size; }
  int tp_rank(int rank) const { return rank % tp_size; }
  int dp_rank(int rank) const { return tp_rank(rank) / attn_tp(); }
  int attn_tp_rank(int rank) const { return tp_rank(rank) % attn_tp(); }
  /// The last stage's first rank. It samples for all requests, or with dp_lm_head for those of its attention-DP rank.
  int leader() const { return (pp_size - 1) * tp_size; }
};

/// Errors name the flag: a size below 1, or --tp-size that --dp-attention does not divide.
Status validate(const Topology& topology);

/// Layers of one pipeline stage: global ids [begin, end).
struct StageLayers {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t end() const { return begin + count; }
};
/// Even, the last `num_layers % pp_size` stages have one more; or as --pp-layer-partition says. Errors: fewer layers than stages, a
/// partition of another length or sum.
Result<StageLayers> stage_layers(int64_t num_layers, const Topology& topology, int pp_rank);

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
  /// Groups of `rank` in `topology` for planning only (no communication): used by `inspect` and shard tests. Errors as validate().
  static Result<ParallelGroups> planned(const Topology& topology, int rank);
  /// One group named `name` over `communicator` and single groups for the rest (unit tests of layers at P > 1).
  static ParallelGroups over(std::string_view name, std::unique_ptr<Communicator> communicator);
  /// Makes the communicator of one group of several ranks: its name, the world ranks of its members in order, and which of them is this
  /// one.
  using Connect = std::function<std::unique_ptr<Communicator>(std::string_view name, const std::vector<int>& members, int index)>;
  /// As planned(), with communicators. `topology` is valid.
  static ParallelGroups connected(const Topology& topology, int rank, const Connect& connect);

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

/// Groups of every rank of `topology` (valid), as threads of this process; index: world rank. `fault` outlives them.
std::vector<ParallelGroups> make_thread_groups(const Topology& topology, RankFault& fault, const CommunicatorOptions& options = {});

}  // namespace lamina
