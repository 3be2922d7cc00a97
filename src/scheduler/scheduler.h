#pragma once
// Decides what each step computes. Pure: driven by calls, no thread, no clock, no model.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kv/page_pool.h"
#include "scheduler/step.h"

namespace lamina {

struct SchedulerConfig {
  KvCapacity kv;
  int max_running_requests = 256;
  int chunked_prefill_size = 512;  // prompt tokens of one step over all requests
  int64_t context_length = 0;      // longest prompt + output
  RopeLengthRule rope_rule = RopeLengthRule::kNone;
  int64_t rope_original_length = 0;    // kSwitchAtOriginal: the longest length the short tables serve; kAtAdmission: plain up to here
  std::vector<TokenId> eos_token_ids;  // union of config and generation_config
};

struct SchedulerRequest {
  RequestId id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool all_logits = false;  // return the logits of every prompt position
  bool pool = false;        // embedding request: no token is sampled
};

/// What happened to a request in a step; tokens are emitted once, in order.
struct RequestEvent {
  RequestId request;
  std::optional<TokenId> token;
  FinishReason finish = FinishReason::kNone;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config);
  ~Scheduler();

  /// Queues a request. Refused at once (an error that gives both numbers) when it can never fit: prompt empty, prompt longer than the
  /// context, or prompt + one token larger than the whole pool. max_new_tokens is cut to what the context leaves.
  Status submit(SchedulerRequest request);
  /// Ends a request wherever it is; its pages are free after the step in flight.
  void cancel(RequestId id);

  bool idle() const;
  /// Fills `plan` with the next step; it stays empty when nothing can run. At most one plan is in flight for now.
  void next_step(StepPlan& plan);
  /// Eats the result of the plan in flight; `events` is overwritten with what happened to each request, in the plan's order.
  void complete(const StepResult& result, std::vector<RequestEvent>& events);

  /// Prompt + outputs of a live request (penalties read it).
  const std::vector<TokenId>* tokens(RequestId id) const;
  const PagePool& pool() const;
  int running() const;
  int waiting() const;
  int64_t retractions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
