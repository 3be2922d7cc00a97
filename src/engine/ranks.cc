#include "engine/ranks.h"

#include <algorithm>
#include <string_view>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"

namespace lamina {
namespace {

/// Equal for equal programs.
std::string program_digest() {
  const Result<MappedFile> program = MappedFile::open("/proc/self/exe");
  if (!program.ok()) return "unknown";
  const std::span<const uint8_t> bytes = program->bytes();
  return std::to_string(std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

Status check_size(const ProcessWorld& world, const Topology& topology) {
  if (world.size() == topology.world_size()) return {};
  return error("mpirun started ", world.size(), " processes, --tp-size ", topology.tp_size, " x --pp-size ", topology.pp_size, " needs ",
               topology.world_size());
}

CommunicatorOptions communicator_options(const EngineOptions& options, int threads, int cpus) {
  return {.deadline = std::chrono::seconds(options.dist_timeout), .threads_of_process = threads, .cpus = cpus};
}

/// Of `ranks` that share this process's CPUs.
Result<std::vector<RankPlace>> rank_places(const EngineOptions& options, int ranks) {
  if (!options.numa) return place_ranks({}, allowed_cpus(), ranks);
  LAMINA_ASSIGN(const std::vector<NumaNode> nodes, read_numa_nodes(options.numa_root));
  return place_ranks(nodes, allowed_cpus(), ranks);
}

/// Says where this process's ranks, from `first_rank` on, are bound.
void tell(const std::vector<RankPlace>& places, int first_rank) {
  std::vector<std::string> texts;
  for (const RankPlace& own : places) {
    if (own.place.cpus.empty()) return log_info("--numa binds nothing: the CPUs of this process are not on several NUMA nodes");
    texts.push_back(cat("rank ", first_rank + static_cast<int>(texts.size()), " on ", own.text()));
    const PlacedThread trial(own.place);
    if (!trial.status().ok()) log_warning(cat("--numa: ", texts.back(), ": ", trial.status().error().message));
  }
  log_info(cat("--numa: ", join(texts, "; ")));
}

RankResources resources(int threads, int cpus, const ThreadPlace& place) {
  RankResources out;
  out.team = std::make_unique<ThreadTeam>(threads, cpus, place);
  return out;
}

Result<RankSet> open_thread_ranks(const EngineOptions& options) {
  RankSet out;
  const int world = options.topology.world_size();
  LAMINA_ASSIGN(const std::vector<RankPlace> places, rank_places(options, world));
  int cpus = usable_cpus() / world;  // of a rank
  for (const RankPlace& own : places) cpus = std::min(cpus, own.cpus);
  const int threads = std::max(1, options.threads > 0 ? options.threads / world : cpus);
  if (options.numa) tell(places, 0);
  for (const RankPlace& own : places) out.ranks.push_back(resources(threads, cpus, own.place));
  out.groups = make_thread_groups(options.topology, *out.fault, communicator_options(options, threads * world, cpus * world));
  return out;
}

Result<RankSet> open_process_rank(const EngineOptions& options) {
  RankSet out;
  LAMINA_ASSIGN(out.world, open_process_world(*out.fault, communicator_options(options, std::max(1, options.threads), usable_cpus())));
  LAMINA_TRY(agree(out, check_size(*out.world, options.topology)));
  out.first_rank = out.world->rank();
  const Result<std::vector<RankPlace>> places = rank_places(options, out.world->cpu_sharers());
  LAMINA_TRY(agree(out, places.ok() ? Status() : places.error()));
  const RankPlace& own = (*places)[static_cast<size_t>(out.world->cpu_sharer_index())];
  if (options.numa) tell({own}, out.first_rank);
  const int cpus = std::max(1, std::min(usable_cpus() / out.world->cpu_sharers(), own.cpus));
  out.ranks.push_back(resources(options.threads > 0 ? options.threads : cpus, cpus, own.place));
  const auto connect = [&](std::string_view name, const std::vector<int>& members, int index) {
    return out.world->connect(name, members, index);
  };
  out.groups.push_back(ParallelGroups::connected(options.topology, out.first_rank, connect));
  return out;
}

}  // namespace

Result<RankSet> open_ranks(const EngineOptions& options) {
  return under_mpirun() ? open_process_rank(options) : open_thread_ranks(options);
}

Status agree(const RankSet& set, Status own) {
  if (!set.world) return own;
  const int size = set.world->size(), rank = set.world->rank();
  const int64_t first = set.world->all_min(own.ok() ? size : rank);
  if (set.fault->raised()) return rank == 0 ? error(set.fault->message()) : Error{};
  if (first == size) return {};
  if (first == rank) return first == 0 ? own : error("rank ", first, ": ", own.error().message);
  return Error{rank == 0 ? cat("rank ", first, " could not start; it has said why") : ""};
}

Status agree_on_build(const RankSet& set, std::string_view model) {
  if (!set.world) return {};
  return agree(set, set.world->all_agree(cat("program ", program_digest(), ", ", model)));
}

}  // namespace lamina
