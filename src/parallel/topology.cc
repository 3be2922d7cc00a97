#include "parallel/topology.h"

#include <algorithm>

#include "base/strings.h"

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

ParallelGroups ParallelGroups::single() { return std::move(planned(Topology{}, 0)).value(); }

Result<ParallelGroups> ParallelGroups::planned(const Topology& topology, int rank) {
  const std::pair<const char*, int> sizes[] = {
      {"--tp-size", topology.tp_size}, {"--pp-size", topology.pp_size}, {"--dp-attention", topology.dp_attention}};
  for (const auto& [flag, size] : sizes) {
    if (size < 1) return error(flag, " ", size, " is not allowed: at least 1");
  }
  if (topology.tp_size % topology.dp_attention != 0) {
    return error("--tp-size ", topology.tp_size, " does not divide over --dp-attention ", topology.dp_attention);
  }
  LAMINA_CHECK(rank >= 0 && rank < topology.world_size(), "rank outside the topology");
  const int attn_tp = topology.tp_size / topology.dp_attention;
  const int tp_rank = rank % topology.tp_size;
  const char* attn_flag = topology.dp_attention == 1 ? "--tp-size" : "--tp-size / --dp-attention";
  ParallelGroups groups;
  groups.set({"tp", "--tp-size", topology.tp_size, tp_rank}, nullptr);
  groups.set({"attn_tp", attn_flag, attn_tp, tp_rank % attn_tp}, nullptr);
  groups.set({"attn_dp", "--dp-attention", topology.dp_attention, tp_rank / attn_tp}, nullptr);
  groups.set({"pp", "--pp-size", topology.pp_size, rank / topology.tp_size}, nullptr);
  groups.set({"world", "--tp-size x --pp-size", topology.world_size(), rank}, nullptr);
  return groups;
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
