#pragma once
// Decides what each step computes. Pure: driven by calls, no thread, no clock, no model.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "scheduler/kv_ledger.h"
#include "scheduler/step.h"

namespace lamina {

enum class SchedulePolicy {
  kFcfs,  // by arrival
  kLpm    // longest cached prefix first; who was passed over kMaxPassedOver times goes first
};
inline constexpr int kMaxPassedOver = 64;
inline constexpr int kLpmQueueLimit = 128;  // a longer queue is served by arrival: matching costs

/// Every size at least 1.
struct SchedulerConfig {
  KvCapacity kv;
  int max_running_requests = 256;
  int chunked_prefill_size = 512;  // tokens of one step; decodes come first and are never held back, prompts share what is left
  int64_t context_length = 0;      // longest prompt + output; 0: only the pool limits
  RopeLengthRule rope_rule = RopeLengthRule::kNone;
  int64_t rope_original_length = 0;      // kSwitchAtOriginal: the longest length the short tables serve; kAtAdmission: plain up to here
  std::vector<TokenId> eos_token_ids;    // union of config and generation_config
  uint64_t (*draw_seed)() = fresh_seed;  // for requests without a seed
  bool prefix_cache = true;
  SchedulePolicy policy = SchedulePolicy::kFcfs;
  int max_queued_requests = 0;   // 0: no limit
  int mixed_prefill_size = 0;    // prompt tokens, for each prompt there is, of a step that also decodes; 0: as chunked_prefill_size
  double new_token_ratio = 0.7;  // share of the outputs still allowed that admission reserves; see docs/SCHEDULING.md
  double min_new_token_ratio = 0.098;
  int new_token_ratio_decay_steps = 600;
  int dp_ranks = 1;         // attention-DP ranks, each with a pool of `kv` pages and a cache of its own
  int plans_in_flight = 1;  // plans that may be out at once (pipeline stages); a request is in at most one

  /// Rows a plan never exceeds.
  int64_t max_step_tokens() const { return std::max(chunked_prefill_size, max_running_requests); }
};

struct SchedulerRequest {
  RequestId id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;  // valid (api/sampling.h)
  bool all_logits = false;  // return the logits of every prompt position, each once
  bool pool = false;        // embedding request: no token is sampled, finishes kStop
  std::string cache_salt;   // prefixes are shared within one salt only
};

/// What happened to a request in a step: a token, an end, or both. Tokens are emitted once, in order. The token that ends a request
/// (EOS, stop_token_ids) is emitted too, so that usage counts it; whoever makes text leaves it out.
struct RequestEvent {
  RequestId request;
  std::optional<TokenId> token;
  FinishReason finish = FinishReason::kNone;
  std::string error = {};     // with kAbort: the runner's StepOutput::error; empty after cancel()
  int64_t cached_tokens = 0;  // prompt tokens that were not computed because the cache had them
};

/// Pages of one attention-DP rank's pool, or of all: free + cached + held == total, always.
struct KvPages {
  int64_t total = 0, free = 0;
  int64_t cached = 0;  // in the prefix cache, read by requests or not
  int64_t held = 0;    // by one request for itself
  int64_t evicted_tokens = 0;
};

/// Continuous batching over a page pool with a prefix cache for each attention-DP rank; docs/SCHEDULING.md has the arithmetic.
///
/// Plans. Up to `plans_in_flight` are out at once and are executed in order. A request has an entry in one of them at most; what is in
/// flight is neither retracted nor shared, and no page of it is given to a later plan before it completes.
///
/// Attention-DP ranks. A request is bound to one at admission, for as long as it runs. A full pool of one holds up nobody who fits another.
///
/// A request is admitted when pages for what it must compute and one token can be had (free, or cached and read by nobody), one more for
/// each running request, and a share of the outputs that all of them may still produce. While decoding it takes a page at a time. When none
/// is left the running request with the fewest outputs (ties: longest prompt, then the latest) on that rank is retracted: it waits in its
/// old place; what it computed stays cached as long as there is room. Of requests in flight it awaits the end. The last of a rank in that
/// order is never retracted and fits by submit()'s check, so that tokens are emitted between retractions and every request ends.
///
/// Ends: EOS (unless ignore_eos) and stop_token_ids give kStop; max_new_tokens, the context and the pool's size give kLength; cancel()
/// and a runner's error give kAbort. With max_new_tokens 0 the prompt is computed and the request ends kLength without a token.
class Scheduler {
 public:
  /// A size below 1 is a CHECK: flags are validated before.
  explicit Scheduler(SchedulerConfig config);
  ~Scheduler();

  /// Queues a request; draws a seed when it has none. Refused (an error that gives both numbers) when it can never fit: empty prompt;
  /// prompt, plus one token if it is to generate, longer than the context or the whole pool. Then max_new_tokens is cut to what these
  /// leave. An id used twice is a CHECK.
  Status submit(SchedulerRequest request);
  /// Ends a request whose end was decided by its text: no event. Not while its entry is in flight (a CHECK). Unknown: nothing.
  void finish(RequestId id);
  /// Ends a request wherever it is; its pages are free at once, or when the plan it is in completes. complete() reports it as kAbort.
  /// Unknown or finished: nothing.
  void cancel(RequestId id);

  /// No request is left, nothing is to be told to the runner and no plan is in flight.
  bool idle() const;
  /// Fills `plan` with the next step. It stays empty when there is nothing to do now: when idle, or until a plan in flight completes. A
  /// plan that is not empty is in flight until complete(); more than `plans_in_flight` is a CHECK.
  void next_step(StepPlan& plan);
  /// Eats the result of the oldest plan in flight (of another: a CHECK), which has no fault; `events` is overwritten with what happened:
  /// entries in the plan's order, then cancellations.
  void complete(const StepResult& result, std::vector<RequestEvent>& events);

  /// Prompt + outputs of a live request; nullptr when there is none.
  const std::vector<TokenId>* tokens(RequestId id) const;
  /// Of a live request, with its seed and the cut max_new_tokens; nullptr when there is none.
  const SamplingParams* sampling(RequestId id) const;
  /// Forgets cached prefixes; false, and nothing happens, unless idle.
  bool flush_cache();
  /// Of all attention-DP ranks, and of one.
  KvPages pages() const;
  KvPages pages(int dp_rank) const;
  const KvLedger& ledger(int dp_rank = 0) const;
  int64_t held_pages() const { return pages().held; }
  int running() const;
  int waiting() const;
  /// submit() refuses whatever comes.
  bool queue_full() const;
  int64_t retractions() const;
  double new_token_ratio() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
