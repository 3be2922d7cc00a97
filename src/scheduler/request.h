#pragma once
// A live request as the scheduler sees it, and the rules that concern one request alone.

#include <cstdint>
#include <vector>

#include "scheduler/scheduler.h"

namespace lamina {

/// Waiting (no pages), or running with `pages` that hold K/V of tokens [0, computed).
struct LiveRequest {
  RequestId id;
  int64_t arrival = 0;
  SamplingParams sampling;      // seed set, max_new_tokens cut
  std::vector<TokenId> tokens;  // prompt, then outputs
  int64_t prompt_len = 0;
  bool all_logits = false;
  bool pool = false;

  std::vector<PageId> pages;
  int64_t computed = 0;
  int64_t logits_returned = 0;  // prompt rows whose logits went out; a second computation does not return them again
  int64_t rope_length = 0;      // what `computed` was and will be computed with; StepEntry::rope_length
  bool announced = false;       // the runner knows it
  bool in_flight = false;       // has an entry in the plan in flight
  bool cancelled = false;       // while in flight

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t outputs() const { return size() - prompt_len; }
  int64_t remaining() const { return size() - computed; }
};

/// The error of submit(), or the request with max_new_tokens cut and a seed.
Result<LiveRequest> admit_request(const SchedulerConfig& config, SchedulerRequest request);

/// Sets rope_length before the request's next entry. When a request outgrows the short tables (kSwitchAtOriginal) this discards what was
/// computed with them; its pages stay and are written anew.
void bind_rope_length(const SchedulerConfig& config, LiveRequest& request);

/// Tokens of the next entry within `budget` >= 1: rows whose logits went out already and rows whose logits are wanted never share one.
int64_t chunk_tokens(const LiveRequest& request, int64_t budget);

/// Whether the token sampled last ends the request.
FinishReason finish_of_token(const SchedulerConfig& config, const LiveRequest& request);

/// a is retracted before b: fewer outputs, then longer prompt, then later arrival. A strict total order.
bool retracts_before(const LiveRequest& a, const LiveRequest& b);

}  // namespace lamina
