#include "parallel/topology.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "parallel/thread_communicator.h"

namespace lamina {

void ParallelGroups::set(ParallelGroup group, std::unique_ptr<Communicator> communicator) {
  if (communicator == nullptr && group.size == 1) communicator = std::make_unique<SelfCommunicator>();
  if (communicator != nullptr) {
    group.communicator = communicator.get();
    communicators_.push_back(std::move(communicator));
  }
  const auto old = std::find_if(groups_.begin(), groups_.end(), [&](const auto& g) { return g->name == group.name; });
  if (old != groups_.end())
    **old = std::move(group);
  else
    groups_.push_back(std::make_unique<ParallelGroup>(std::move(group)));
}

ParallelGroups ParallelGroups::single() { return connected(Topology{}, 0, nullptr); }

Status validate(const Topology& topology) {
  constexpr int kMost = 4096;
  const std::pair<const char*, int> sizes[] = {
      {"--tp-size", topology.tp_size}, {"--pp-size", topology.pp_size}, {"--dp-attention", topology.dp_attention}};
  for (const auto& [flag, size] : sizes) {
    if (size < 1 || size > kMost) return error(flag, " ", size, " is not allowed: at least 1, at most ", kMost);
  }
  if (topology.world_size() > kMost) {
    return error("--tp-size ", topology.tp_size, " x --pp-size ", topology.pp_size, " are ", topology.world_size(), " ranks, at most ",
                 kMost);
  }
  if (topology.tp_size % topology.dp_attention != 0) {
    return error("--tp-size ", topology.tp_size, " does not divide over --dp-attention ", topology.dp_attention);
  }
  return {};
}

Result<StageLayers> stage_layers(int64_t num_layers, const Topology& topology, int pp_rank) {
  const int stages = topology.pp_size;
  LAMINA_CHECK(pp_rank >= 0 && pp_rank < stages, "stage outside the topology");
  if (num_layers < stages)
    return error("--pp-size ", stages, " is not allowed: the model has ", num_layers, " layers, at least one a stage");
  const std::vector<int>& partition = topology.pp_layer_partition;
  if (partition.empty()) {
    const int64_t each = num_layers / stages, first_longer = stages - num_layers % stages;
    return StageLayers{.begin = each * pp_rank + std::max<int64_t>(0, pp_rank - first_longer), .count = each + (pp_rank >= first_longer)};
  }
  if (static_cast<int>(partition.size()) != stages) {
    return error("--pp-layer-partition has ", partition.size(), " parts, --pp-size is ", stages);
  }
  int64_t sum = 0;
  StageLayers out;
  for (int stage = 0; stage < stages; ++stage) {
    const int count = partition[static_cast<size_t>(stage)];
    if (count < 1) return error("--pp-layer-partition: stage ", stage, " has ", count, " layers, at least 1 is allowed");
    if (stage == pp_rank) out = {.begin = sum, .count = count};
    sum += count;
  }
  if (sum != num_layers) return error("--pp-layer-partition adds up to ", sum, " layers, the model has ", num_layers);
  return out;
}

Result<ParallelGroups> ParallelGroups::planned(const Topology& topology, int rank) {
  LAMINA_TRY(validate(topology));
  return connected(topology, rank, nullptr);
}

ParallelGroups ParallelGroups::connected(const Topology& topology, int rank, const Connect& connect) {
  LAMINA_CHECK(rank >= 0 && rank < topology.world_size(), "rank outside the topology");
  const int attn_tp = topology.attn_tp(), tp_rank = topology.tp_rank(rank);
  const int stage = rank - tp_rank;  // world rank of the stage's first
  const char* attn_flag = topology.dp_attention == 1 ? "--tp-size" : "--tp-size / --dp-attention";
  ParallelGroups groups;
  // Members: first, first + step, ...
  const auto add = [&](const char* name, const char* flag, int size, int first, int step) {
    const int index = (rank - first) / step;
    std::unique_ptr<Communicator> communicator;
    if (size > 1 && connect != nullptr) {
      std::vector<int> members(static_cast<size_t>(size));
      for (int i = 0; i < size; ++i) members[static_cast<size_t>(i)] = first + i * step;
      communicator = connect(name, members, index);
    }
    groups.set({name, flag, size, index}, std::move(communicator));
  };
  add("tp", "--tp-size", topology.tp_size, stage, 1);
  add("attn_tp", attn_flag, attn_tp, rank - topology.attn_tp_rank(rank), 1);
  add("attn_dp", "--dp-attention", topology.dp_attention, stage + topology.attn_tp_rank(rank), attn_tp);
  add("pp", "--pp-size", topology.pp_size, tp_rank, topology.tp_size);
  add("world", "--tp-size x --pp-size", topology.world_size(), 0, 1);
  return groups;
}

std::vector<ParallelGroups> make_thread_groups(const Topology& topology, RankFault& fault, const CommunicatorOptions& options) {
  CommunicatorOptions own = options;
  own.threads_of_process = std::max(options.threads_of_process, topology.world_size());
  // A group is made when its first member asks, and keeps what the other members will ask for.
  std::map<std::pair<std::string, std::vector<int>>, std::vector<std::unique_ptr<Communicator>>> made;
  std::vector<ParallelGroups> out;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    out.push_back(ParallelGroups::connected(topology, rank, [&](std::string_view name, const std::vector<int>& members, int index) {
      auto& group = made[{std::string(name), members}];
      if (group.empty()) group = make_thread_group(name, members, fault, own);
      return std::move(group[static_cast<size_t>(index)]);
    }));
  }
  return out;
}

ParallelGroups ParallelGroups::over(std::string_view name, std::unique_ptr<Communicator> communicator) {
  ParallelGroups groups = single();
  const auto old = groups.find(name);
  const std::string flag = old.ok() ? (*old)->size_flag : "--tp-size";
  const int size = communicator->size();
  const int rank = communicator->rank();
  groups.set({std::string(name), flag, size, rank}, std::move(communicator));
  return groups;
}

Result<const ParallelGroup*> ParallelGroups::find(std::string_view name) const {
  std::vector<std::string> known;
  for (const auto& group : groups_) {
    if (group->name == name) return static_cast<const ParallelGroup*>(group.get());
    known.push_back(group->name);
  }
  return error("parallel group \"", name, "\" must exist before construction; groups: ", join(known, ", "));
}

Status ParallelGroups::add_replicated(std::string_view name, std::string_view base, int factor) {
  if (find(name).ok()) return error("parallel group \"", name, "\" exists already");
  LAMINA_ASSIGN(const ParallelGroup* group, find(base));
  if (factor < 1 || group->size % factor != 0) {
    return error("parallel group \"", name, "\": ", group->size_flag, " ", group->size, " does not divide by the factor ", factor);
  }
  set({std::string(name), group->size_flag, group->size / factor, group->rank / factor}, nullptr);
  return {};
}

}  // namespace lamina
