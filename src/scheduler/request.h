#pragma once
// A live request as the scheduler sees it, and the rules that concern one request alone.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/kv_ledger.h"
#include "scheduler/scheduler.h"

namespace lamina {

/// Waiting (nothing attached), or running with pages that hold K/V of tokens [0, kv.computed).
struct LiveRequest {
  RequestId id;
  int64_t arrival = 0;
  SamplingParams sampling;      // seed set, max_new_tokens cut
  std::vector<TokenId> tokens;  // prompt, then outputs
  int64_t prompt_len = 0;
  bool all_logits = false;
  bool pool = false;
  std::string cache_salt;

  int dp_rank = 0;  // whose pages kv names, while it runs
  RequestKv kv;
  int64_t rows_returned = 0;  // prompt rows whose logits or logprobs went out; a second computation does not return them again
  int64_t rope_length = 0;    // what kv was and will be computed with; StepEntry::rope_length
  int64_t cached_tokens = 0;  // prompt tokens that the first admission found in the cache
  int passed_over = 0;        // admissions that went to a later arrival
  bool announced = false;     // the runner knows it
  int64_t in_flight = 0;      // tokens of its entry in a plan in flight; 0: it has none
  int64_t last_step = 0;      // step of its last entry
  bool cancelled = false;     // while in flight

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t outputs() const { return size() - prompt_len; }
  int64_t remaining() const { return size() - kv.computed; }
  /// Whether its next entry is a decode; of a request in flight: the one after that.
  bool decodes() const { return in_flight > 0 ? in_flight == remaining() : remaining() == 1; }
  /// Whether rows of the prompt are wanted one by one, which forbids skipping any.
  bool wants_rows() const { return all_logits || sampling.prompt_logprobs; }
  CacheKey cache_key() const { return {rope_length, cache_salt}; }
  /// Tokens that may come from the cache: one at least is computed, and so is every row that is still to be returned.
  int64_t cache_limit() const { return wants_rows() ? std::min(rows_returned, size() - 1) : size() - 1; }
};

/// The error of submit(), or the request with max_new_tokens cut and a seed.
Result<LiveRequest> admit_request(const SchedulerConfig& config, SchedulerRequest request);

/// The rope length of the request's next entry. A request that outgrows the short tables (kSwitchAtOriginal) gets another one: what was
/// computed with the old is of no use then.
int64_t wanted_rope_length(const SchedulerConfig& config, const LiveRequest& request);

/// Tokens of the next entry within `budget` >= 1: rows whose logits went out already and rows whose logits are wanted never share one.
int64_t chunk_tokens(const LiveRequest& request, int64_t budget);

/// Whether the token sampled last ends the request.
FinishReason finish_of_token(const SchedulerConfig& config, const LiveRequest& request);

/// a is retracted before b: fewer outputs, then longer prompt, then later arrival. A strict total order.
bool retracts_before(const LiveRequest& a, const LiveRequest& b);

}  // namespace lamina
