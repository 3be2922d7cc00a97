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
#include "kv/page_pool.h"
#include "scheduler/step.h"

namespace lamina {

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

  /// Rows a plan never exceeds.
  int64_t max_step_tokens() const { return std::max(chunked_prefill_size, max_running_requests); }
};

struct SchedulerRequest {
  RequestId id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;  // valid (api/sampling.h)
  bool all_logits = false;  // return the logits of every prompt position, each once
  bool pool = false;        // embedding request: no token is sampled, finishes kStop
};

/// What happened to a request in a step: a token, an end, or both. Tokens are emitted once, in order. The token that ends a request
/// (EOS, stop_token_ids) is emitted too, so that usage counts it; whoever makes text leaves it out.
struct RequestEvent {
  RequestId request;
  std::optional<TokenId> token;
  FinishReason finish = FinishReason::kNone;
  std::string error = {};  // with kAbort: the runner's StepOutput::error; empty after cancel()
};

/// First come, first served, continuous batching over one page pool.
///
/// A request is admitted when pages for its whole prompt (and outputs, after a retraction) and one token are free and one more for each
/// running request; nobody overtakes. While decoding it takes a page at a time. When none is left the running request with the fewest
/// outputs (ties: longest prompt, then the latest) is retracted: it waits in its old place and computes prompt and outputs again. The
/// last one running is never retracted and fits by submit()'s check, so that at least one token is emitted between
/// two steps that retract, and every request ends.
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
  /// Ends a request wherever it is; its pages are free at once, or after the step in flight. complete() reports it as kAbort. Unknown or
  /// finished: nothing.
  void cancel(RequestId id);

  /// No request is left, nothing is to be told to the runner and no plan is in flight.
  bool idle() const;
  /// Fills `plan` with the next step; it stays empty when nothing can run (only when idle). A plan that is not empty is in flight until
  /// complete(); a second one meanwhile is a CHECK.
  void next_step(StepPlan& plan);
  /// Eats the result of the plan in flight; `events` is overwritten with what happened: entries in the plan's order, then cancellations.
  void complete(const StepResult& result, std::vector<RequestEvent>& events);

  /// Prompt + outputs of a live request; nullptr when there is none.
  const std::vector<TokenId>* tokens(RequestId id) const;
  /// Of a live request, with its seed and the cut max_new_tokens; nullptr when there is none.
  const SamplingParams* sampling(RequestId id) const;
  const PagePool& pool() const;
  int running() const;
  int waiting() const;
  int64_t retractions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
