#pragma once
// What `lamina` commands can say about a model and how it runs; names as on the command line.

#include <cstdint>

#include "base/numa.h"
#include "plan/model_plan.h"

namespace lamina {

struct EngineOptions : PlanOptions {
  int max_running_requests = 256;
  int chunked_prefill_size = 512;
  int page_size = 16;
  int64_t max_total_tokens = 0;  // 0: by memory
  double mem_fraction_static = 0.8;
  bool disable_radix_cache = false;
  std::string schedule_policy = "fcfs";  // fcfs | lpm
  int max_queued_requests = 0;           // 0: no limit
  int mixed_prefill_size = 32;           // prompt tokens, for each prompt, of a step that also decodes; 0: no own limit
  double schedule_conservativeness = 1.0;
  int threads = 0;                        // of all ranks of the process together; 0: what affinity and cgroups allow
  bool numa = false;                      // each rank on a NUMA node
  std::string numa_root = kNumaRoot;      // where the nodes are read from
  std::string chat_template;              // a file instead of the checkpoint's template; empty: that one
  int dist_timeout = 300;                 // seconds after which a rank that waits for another one gives up
  int max_micro_batches = 0;              // steps in flight at once; 0: as many as pipeline stages
  bool enable_two_batch_overlap = false;  // known, and refused with the reason
};

/// Checks ranges and spellings; the error names the flag, the value and what is allowed.
Status validate(const EngineOptions& options);

}  // namespace lamina
