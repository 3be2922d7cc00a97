#include "base/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/file.h"
#include "base/strings.h"

namespace lamina {
namespace {

constexpr int kMostCpus = 1 << 16;
constexpr int kMaskCpus = 8 * static_cast<int>(sizeof(cpu_set_t));

/// The number that follows "node"; -1 for another name.
int node_id(std::string_view name) {
  constexpr std::string_view kPrefix = "node";
  if (!name.starts_with(kPrefix)) return -1;
  int id = -1;
  const char* const end = name.data() + name.size();
  const auto [read, fault] = std::from_chars(name.data() + kPrefix.size(), end, id);
  return fault == std::errc() && read == end ? id : -1;
}

/// "7" or "0-3".
bool parse_range(const std::string& text, int& first, int& last) {
  const char* const end = text.data() + text.size();
  auto [read, fault] = std::from_chars(text.data(), end, first);
  if (fault != std::errc()) return false;
  last = first;
  if (read != end && *read == '-') {
    const auto second = std::from_chars(read + 1, end, last);
    if (second.ec != std::errc()) return false;
    read = second.ptr;
  }
  return read == end && first <= last && last < kMostCpus;
}

bool set_allowed(const std::vector<int>& cpus) {
  std::vector<cpu_set_t> mask(static_cast<size_t>(cpus.back() / kMaskCpus + 1));
  const size_t bytes = mask.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, mask.data());
  return sched_setaffinity(0, bytes, mask.data()) == 0;
}

Error refused(const char* call) { return error("the system refuses ", call, ": ", std::string_view(std::strerror(errno))); }

/// Of those that have allowed CPUs, these CPUs.
std::vector<NumaNode> allowed_nodes(const std::vector<NumaNode>& nodes, const std::vector<int>& allowed) {
  std::vector<NumaNode> out;
  for (const NumaNode& node : nodes) {
    NumaNode cut{node.id, {}};
    std::ranges::set_intersection(node.cpus, allowed, std::back_inserter(cut.cpus));
    if (!cut.cpus.empty()) out.push_back(std::move(cut));
  }
  return out;
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (const std::string& piece : split(text, ',')) {
    int first = 0, last = 0;
    if (!parse_range(piece, first, last) || first < (cpus.empty() ? 0 : cpus.back() + 1)) {
      return error("'", text.substr(0, 100), "' is no list of CPUs such as 0-3,8-11");
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string cpu_list_text(std::span<const int> cpus) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    ranges.push_back(last == i ? cat(cpus[i]) : cat(cpus[i], "-", cpus[last]));
    i = last + 1;
  }
  return join(ranges, ",");
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  // The kernel's mask may be wider than cpu_set_t; a call with too small a mask fails.
  for (int most = kMaskCpus; most <= kMostCpus; most *= 2) {
    std::vector<cpu_set_t> mask(static_cast<size_t>(most / kMaskCpus));
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) != 0) continue;
    for (int cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, mask.data())) cpus.push_back(cpu);
    }
    break;
  }
  return cpus;
}

Result<std::vector<NumaNode>> read_numa_nodes(const std::string& root) {
  std::vector<NumaNode> nodes;
  if (!is_directory(root)) return nodes;
  LAMINA_ASSIGN(const std::vector<std::string> names, list_folder(root));
  for (const std::string& name : names) {
    const int id = node_id(name);
    if (id < 0) continue;
    const std::string path = cat(root, "/", name, "/cpulist");
    LAMINA_ASSIGN(const std::string text, read_file(path, 1 << 20));
    Result<std::vector<int>> cpus = parse_cpu_list(text);
    if (!cpus.ok()) return error(path, ": ", cpus.error().message);
    nodes.push_back({id, *std::move(cpus)});
  }
  std::ranges::sort(nodes, {}, &NumaNode::id);
  return nodes;
}

std::string RankPlace::text() const {
  const bool several = place.nodes.size() > 1;
  return cat(several ? "nodes " : "node ", cpu_list_text(place.nodes), " (CPUs ", cpu_list_text(place.cpus), ")",
             several ? ", memory from each in turn" : "");
}

std::vector<RankPlace> place_ranks(const std::vector<NumaNode>& nodes, const std::vector<int>& allowed, int ranks) {
  const std::vector<NumaNode> usable = allowed_nodes(nodes, allowed);
  const int count = static_cast<int>(usable.size());
  std::vector<RankPlace> out(static_cast<size_t>(ranks));
  std::vector<int> tenants(usable.size());
  const auto first_node = [&](int rank) { return static_cast<int>(int64_t{rank} * count / ranks); };
  for (int rank = 0; count > 1 && rank < ranks; ++rank) ++tenants[static_cast<size_t>(first_node(rank))];
  for (int rank = 0; rank < ranks; ++rank) {
    RankPlace& own = out[static_cast<size_t>(rank)];
    own.cpus = static_cast<int>(allowed.size()) / ranks;
    if (count < 2) continue;
    const int begin = first_node(rank), end = std::max(begin + 1, first_node(rank + 1));
    for (int n = begin; n < end; ++n) {
      const NumaNode& node = usable[static_cast<size_t>(n)];
      own.place.nodes.push_back(node.id);
      own.place.cpus.insert(own.place.cpus.end(), node.cpus.begin(), node.cpus.end());
    }
    std::ranges::sort(own.place.cpus);
    own.cpus = static_cast<int>(own.place.cpus.size()) / tenants[static_cast<size_t>(begin)];
  }
  return out;
}

PlacedThread::PlacedThread(const ThreadPlace& place) {
  if (place.cpus.empty()) return;
  std::vector<int> former = allowed_cpus();
  if (set_allowed(place.cpus))
    former_cpus_ = std::move(former);
  else
    status_ = refused("sched_setaffinity");
  if (place.nodes.size() > 1) deal_memory(place.nodes);
}

PlacedThread::~PlacedThread() {
  if (!former_cpus_.empty()) set_allowed(former_cpus_);
  if (deals_) syscall(SYS_set_mempolicy, former_policy_.mode, former_policy_.nodes, kMostNodes + 1);
}

/// First touch would lay whole matrices on one node, since threads claim runs of layers when they load and runs of rows when they multiply.
void PlacedThread::deal_memory(const std::vector<int>& nodes) {
  constexpr unsigned long kBits = 8 * sizeof(unsigned long);
  Policy policy;
  for (const int node : nodes) {
    const auto bit = static_cast<unsigned long>(node);
    if (bit < kMostNodes) policy.nodes[bit / kBits] |= 1UL << bit % kBits;
  }
  deals_ = syscall(SYS_get_mempolicy, &former_policy_.mode, former_policy_.nodes, kMostNodes, nullptr, 0UL) == 0 &&
           syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, policy.nodes, kMostNodes + 1) == 0;  // counts one bit more than it reads
  if (!deals_ && status_.ok()) status_ = refused("set_mempolicy (a container needs SYS_NICE for it)");
}

}  // namespace lamina
