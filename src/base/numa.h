#pragma once
// Which CPUs lie at which memory, who runs where, and threads that stay there.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lamina {

/// Where the kernel shows the nodes of this machine: folders node0, node1, ... with a file cpulist each.
inline constexpr const char* kNumaRoot = "/sys/devices/system/node";

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;  // ascending; none for memory without processors
};

/// "0-3,8" -> 0 1 2 3 8; an empty text is an empty list. The error quotes the text.
Result<std::vector<int>> parse_cpu_list(std::string_view text);
/// Ascending numbers as such a text.
std::string cpu_list_text(std::span<const int> cpus);

/// CPUs that the calling thread may run on, ascending.
std::vector<int> allowed_cpus();

/// The nodes that the folder `root` shows, ascending; ids may be missing. No such folder (a kernel without NUMA): no nodes. An error names
/// the file that is no list of CPUs.
Result<std::vector<NumaNode>> read_numa_nodes(const std::string& root);

/// Where the threads of a team run, and where the memory lies that they touch first.
struct ThreadPlace {
  std::vector<int> cpus;   // ascending; none: wherever the process may
  std::vector<int> nodes;  // ids: of one, memory comes from where a thread runs; of several, from each in turn
};

/// The place of one of several ranks.
struct RankPlace {
  ThreadPlace place;
  int cpus = 0;  // its own share of them, for the number of its threads; may be 0

  /// "node 0 (CPUs 0-3,8-11)"; "nodes 0-1 (CPUs 0-15), memory from each in turn"; only for a place with CPUs.
  std::string text() const;
};

/// Rank r of `ranks` gets node r * nodes / ranks and, when there are more nodes than ranks, all up to the next rank's; ranks of one node
/// share its CPUs. Nodes count that have CPUs among `allowed`. With less than two of them nobody is bound.
std::vector<RankPlace> place_ranks(const std::vector<NumaNode>& nodes, const std::vector<int>& allowed, int ranks);

/// Keeps the calling thread on the CPUs of a place while it lives, and its first touches on the place's nodes. Threads that it starts
/// meanwhile inherit both. A place without CPUs changes nothing.
class PlacedThread {
 public:
  explicit PlacedThread(const ThreadPlace& place);
  ~PlacedThread();
  PlacedThread(const PlacedThread&) = delete;
  PlacedThread& operator=(const PlacedThread&) = delete;

  /// What the system refused; the thread then runs, or its memory lies, wherever it likes, which is only slower.
  const Status& status() const { return status_; }

 private:
  void deal_memory(const std::vector<int>& nodes);

  static constexpr unsigned long kMostNodes = 1024;
  struct Policy {
    int mode = 0;
    unsigned long nodes[kMostNodes / (8 * sizeof(unsigned long))] = {};
  };
  std::vector<int> former_cpus_;  // none: as they were
  Policy former_policy_;
  bool deals_ = false;
  Status status_;
};

}  // namespace lamina
